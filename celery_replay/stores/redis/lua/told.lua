-- Forget what the journal was told, unless somebody else took it again meanwhile.
-- ARGV: names, each with when it was noted, as take.lua returned them.
local taken = P .. 'taken'
for i = 1, #ARGV, 2 do
  local noted = redis.call('ZSCORE', taken, ARGV[i])
  if noted and tonumber(noted) == tonumber(ARGV[i + 1]) then redis.call('ZREM', taken, ARGV[i]) end
end
