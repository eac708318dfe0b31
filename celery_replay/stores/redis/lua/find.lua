-- Look through the index of jobs, newest first.
-- ARGV: where to begin, where to end, how many entries to look at; then fields of the head, and what they are to be.
-- Returns the last entry that was looked at, and of each job that was found: its submission and value.
local entries = redis.call('XREVRANGE', P .. 'jobs', ARGV[1], ARGV[2], 'COUNT', ARGV[3])
if #entries == 0 then return {false} end
local found = {entries[#entries][1]}
for _, entry in ipairs(entries) do
  local submission = entry[2][2]
  local value = redis.call('GET', P .. 'j:' .. submission)
  if value then
    local fields, fits = ARGV[4] and head(value), true
    for i = 4, #ARGV, 2 do
      local field = tonumber(ARGV[i])
      local is = fields[field]
      if field == TRACE and is == '' then is = submission end
      if is ~= ARGV[i + 1] then fits = false break end
    end
    if fits then found[#found + 1], found[#found + 2] = submission, value end
  end
end
return found
