-- Take what changed out of the outbox, to be told to the journal; what was taken before and never told comes first.
-- ARGV: how long it must have been noted, how many at most; or names, whenever they were noted.
-- Returns names, each with when it was noted.
local taken, found = P .. 'taken', {}

local function take(name, noted)
  redis.call('ZADD', taken, noted, name)
  redis.call('ZREM', OUTBOX, name)
  found[#found + 1], found[#found + 2] = name, noted
end

if #ARGV > 2 then
  for i = 3, #ARGV do
    local noted = redis.call('ZSCORE', OUTBOX, ARGV[i]) or redis.call('ZSCORE', taken, ARGV[i])
    if noted then take(ARGV[i], noted) end
  end
  return found
end
found = redis.call('ZRANGE', taken, 0, ARGV[2] - 1, 'WITHSCORES')
if #found > 0 then return found end
local t = redis.call('TIME')
local until_ = int(t[1] * 1000000 + t[2] - ARGV[1])
local due = redis.call('ZRANGEBYSCORE', OUTBOX, '-inf', until_, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for i = 1, #due, 2 do take(due[i], due[i + 1]) end
return found
