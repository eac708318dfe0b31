-- Note that the canvases of jobs that ended were sent on; return those that are to be looked at one by one.
-- ARGV: the statuses of an ended job between tabs; submissions.
local others = {}
for i = 2, #ARGV do
  local submission = ARGV[i]
  local job = P .. 'j:' .. submission
  local value = redis.call('GET', job)
  local fields = value and head(value)
  if not fields or not string.find(ARGV[1], '\t' .. fields[STATUS] .. '\t', 1, true)
      or redis.call('EXISTS', P .. 'r:' .. submission) == 1 then
    others[#others + 1] = submission
  else
    -- Advanced; no more unknown, nor under way.
    fields[MARKS] = string.gsub(fields[MARKS], '[ak]', '') .. 'a'
    fields[CANVAS] = ''
    redis.call('SET', job, table.concat(fields, '\t') .. string.sub(value, string.find(value, '\n', 1, true), -1),
      'KEEPTTL')
    redis.call('ZREM', P .. 'reap', submission)
    changed('j:' .. submission)
  end
end
return others
