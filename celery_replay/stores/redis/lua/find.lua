-- Look through the index of jobs, newest first.
-- ARGV: where to begin, where to end, how many entries to look at; then fields of the head, and what they are to be.
-- Returns the last entry that was looked at, and of each job that was found: its submission and value.
local entries = redis.call('XREVRANGE', P .. 'jobs', ARGV[1], ARGV[2], 'COUNT', ARGV[3])
if #entries == 0 then return {false} end

-- Most jobs have not even the text that is looked for, and splitting a head takes its time.
local function perhaps(submission, value)
  for i = 5, #ARGV, 2 do
    if not string.find(value, ARGV[i], 1, true) and submission ~= ARGV[i] then return false end
  end
  return true
end

local function fits(submission, value)
  local fields = head(value)
  for i = 4, #ARGV, 2 do
    local field = tonumber(ARGV[i])
    local is = fields[field]
    if field == TRACE and is == '' then is = submission end
    if is ~= ARGV[i + 1] then return false end
  end
  return true
end

local found = {entries[#entries][1]}
for _, entry in ipairs(entries) do
  local submission = entry[2][2]
  local value = redis.call('GET', P .. 'j:' .. submission)
  if value and perhaps(submission, value) and (not ARGV[4] or fits(submission, value)) then
    found[#found + 1], found[#found + 2] = submission, value
  end
end
return found
