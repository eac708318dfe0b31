-- Delete jobs that are past their retention, and what hangs on them, among the next entries of the index of jobs.
-- ARGV: clock, where to begin, how many entries to look at, at most how many jobs, the statuses of jobs that are over
--       between tabs, 'dry' to only count, the states of letters that are through.
-- Returns where to go on ('' at the end) and how many jobs went, or would.
local now, dry = clock(ARGV[1]), ARGV[6] == 'dry'

local function drop_group(group)
  if group == '' or redis.call('EXISTS', P .. 'lg:' .. group) == 1 then return end
  for _, entry in ipairs(redis.call('HKEYS', P .. 'h:g:' .. group)) do
    redis.call('ZREM', P .. 'history', 'g:' .. group .. '\t' .. entry)
  end
  for _, name in ipairs({'g:', 'trend:', 'h:g:', 'hg:'}) do redis.call('UNLINK', P .. name .. group) end
  redis.call('ZREM', P .. 'groups', group)
  redis.call('ZREM', P .. 'waiting', group)
end

local function drop_letter(submission)
  local letter = redis.call('GET', P .. 'l:' .. submission)
  if letter then
    local state, group = string.match(letter, '^([^\t]*)\t([^\n]*)\n')
    group = plain(group)
    -- It waits for somebody, though its job is gone: that should not be, so it is left alone.
    if not string.find(ARGV[7], '\t' .. state .. '\t', 1, true) then return end
    redis.call('UNLINK', P .. 'l:' .. submission)
    for _, name in ipairs({'letters', 'ls:' .. state, 'lg:' .. group}) do redis.call('ZREM', P .. name, submission) end
    drop_group(group)
  end
  local home = 's:' .. submission
  local entries = redis.call('HGETALL', P .. 'h:' .. home)
  for i = 1, #entries, 2 do
    local name = home .. '\t' .. entries[i]
    local group, operation = string.match(entries[i + 1], '^([^\t]*)\t([^\n]*)\n')
    for _, index in ipairs({'history', 'hg:' .. plain(group), 'ho:' .. plain(operation)}) do redis.call('ZREM', P .. index, name) end
  end
  redis.call('UNLINK', P .. 'h:' .. home)
end

local function drop_trace(trace, submission)
  local key = P .. 't:' .. trace
  redis.call('HDEL', key, 'j:' .. submission)
  local fields = redis.call('HKEYS', key)
  if redis.call('EXISTS', P .. 'j:' .. trace) == 1 then return end
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 2) == 'j:' and redis.call('EXISTS', P .. field) == 1 then return end
  end
  for _, field in ipairs(fields) do
    if string.sub(field, 1, 2) == 'x:' then drop_blob(string.sub(field, 3), trace) end
  end
  redis.call('UNLINK', key)
end

local function drop(submission, fields)
  redis.call('UNLINK', P .. 'j:' .. submission)
  redis.call('ZREM', P .. 'reap', submission)
  local claim = plain(fields[CLAIM])
  if claim ~= '' and redis.call('GET', P .. 'c:' .. claim) == submission then redis.call('DEL', P .. 'c:' .. claim) end
  redis.call('UNLINK', P .. 's:' .. (claim == '' and submission or claim))
  drop_trace(fields[TRACE] == '' and submission or plain(fields[TRACE]), submission)
  drop_letter(submission)
end

local function forgettable(submission, fields)
  return string.find(ARGV[5], '\t' .. fields[STATUS] .. '\t', 1, true)
    and not string.find(fields[FLAGS], 'l', 1, true)
    and fields[KEEP] ~= '' and tonumber(fields[KEEP]) <= now
    and redis.call('EXISTS', P .. 'r:' .. submission) == 0
end

-- Leases that nobody took for long, unless somebody stands in their line.
if not dry then
  for _, resource in ipairs(redis.call('ZRANGEBYSCORE', P .. 'forgotten', '-inf', int(now), 'LIMIT', 0, ARGV[3])) do
    local line = P .. 'line:' .. resource
    for _, submission in ipairs(redis.call('ZRANGE', line, 0, -1)) do
      if redis.call('EXISTS', P .. 'r:' .. submission) == 0 then redis.call('ZREM', line, submission) end
    end
    if redis.call('EXISTS', line) == 0 then
      redis.call('UNLINK', P .. 'lease:' .. resource, P .. 'held:' .. resource)
      redis.call('ZREM', P .. 'forgotten', resource)
      redis.call('ZREM', P .. 'leases', resource)
    end
  end
end

local gone, limit, last = 0, tonumber(ARGV[4]), ''
local entries = redis.call('XRANGE', P .. 'jobs', ARGV[2], '+', 'COUNT', ARGV[3])
for _, entry in ipairs(entries) do
  local id, submission = entry[1], entry[2][2]
  local value = redis.call('GET', P .. 'j:' .. submission)
  local fields = value and head(value)
  if not fields then
    -- Redis has forgotten the job by itself.
    if not dry then
      redis.call('XDEL', P .. 'jobs', id)
      drop_letter(submission)
    end
  elseif forgettable(submission, fields) then
    gone = gone + 1
    if not dry then
      redis.call('XDEL', P .. 'jobs', id)
      drop(submission, fields)
    end
  end
  last = id
  if gone >= limit then break end
end
if #entries < tonumber(ARGV[3]) and gone < limit then last = '' end
return {last, gone}
