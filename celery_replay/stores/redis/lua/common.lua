-- What the scripts share; it stands before each of them. KEYS[1] is the prefix of all keys, with its hash tag.
local P = KEYS[1]
-- Where it is noted what a journal has to be told, if there is one.
local OUTBOX = KEYS[2]

-- The fields of a job's head, in their order; celery_replay/stores/redis/jobs.py writes them.
local STATUS, NONCE, CLAIM, FLAGS, MARKS, AT, KEEP, CANVAS, ORIGINAL, TASK, TRACE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11

local function clock(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Exact for microseconds: tostring would round them.
local function int(number) return string.format('%.0f', number) end

-- Note that something changed, by when it first did since it was taken. Not by the clock of a test: that stands still.
local function changed(name)
  if OUTBOX then
    local t = redis.call('TIME')
    redis.call('ZADD', OUTBOX, 'NX', int(t[1] * 1000000 + t[2]), name)
  end
end

local function later(now, distance)
  if distance == '' then return '' end
  return int(now + distance)
end

local PLAIN = {t = '\t', n = '\n', ['\\'] = '\\'}
local function plain(text) return (string.gsub(text, '\\(.)', PLAIN)) end

local function head(value)
  local fields = {}
  for field in string.gmatch(string.match(value, '^[^\n]*') .. '\t', '([^\t]*)\t') do fields[#fields + 1] = field end
  return fields
end

-- Refuse what was meant for a run of the store that is over.
local function other_run(run)
  if redis.call('GET', P .. 'run') == run then return nil end
  return redis.error_reply('OTHERRUN the store may have lost what it knew')
end

local function absent(key) return redis.call('EXISTS', key) == 0 end

-- Let a key live for another while, but never shorter than it would. One that is fresh has no end yet; of another one
-- without an end somebody wanted that.
local function live(key, ttl, fresh)
  local left = redis.call('PTTL', key)
  if (left == -1 and fresh) or (left >= 0 and left < tonumber(ttl)) then redis.call('PEXPIRE', key, ttl) end
end

-- A hash's version: whoever decided by what it had finds out that it changed.
local function bump(key) redis.call('HSET', key, '', redis.call('INCR', P .. 'changes')) end

-- Add a job to the index of jobs, by when it started; in Redis a stream takes a third of a sorted set's room.
local function log(now, submission)
  local id = int(math.floor(now / 1000)) .. '-*'
  local added = redis.pcall('XADD', P .. 'jobs', id, 's', submission)
  if type(added) == 'table' and added.err then
    if not string.find(added.err, 'smaller', 1, true) then return error(added) end
    -- The clock went back.
    local last = redis.call('XINFO', 'STREAM', P .. 'jobs')
    for i = 1, #last, 2 do
      if last[i] == 'last-generated-id' then id = string.match(last[i + 1], '^%d+') .. '-*' end
    end
    redis.call('XADD', P .. 'jobs', id, 's', submission)
  end
end

local function put_of_trace(trace, field, value, ttl)
  local key = P .. 't:' .. trace
  local fresh = absent(key)
  redis.call('HSET', key, field, value)
  live(key, ttl, fresh)
end

local function put_blob(reference, body, trace, ttl)
  local key = P .. 'x:' .. reference
  -- One that is there is the same, or it is elsewhere by now.
  local fresh = redis.call('HSETNX', key, '', body) == 1
  if fresh and redis.call('EXISTS', P .. 'elsewhere') == 1 then redis.call('SADD', P .. 'unplaced', reference) end
  redis.call('HSET', key, 't:' .. trace, '')
  live(key, ttl, fresh)
  put_of_trace(trace, 'x:' .. reference, '', ttl)
  changed('x:' .. reference .. '\t' .. trace)
end

local function drop_blob(reference, trace)
  redis.call('HDEL', P .. 't:' .. trace, 'x:' .. reference)
  redis.call('HDEL', P .. 'x:' .. reference, 't:' .. trace)
  if redis.call('HLEN', P .. 'x:' .. reference) <= 1 then redis.call('UNLINK', P .. 'x:' .. reference) end
end

-- Return the time, and whatever the rules look at, as keys and values.
local function look(now, submission, claim, original)
  local found, seen = {int(now)}, {}
  local function get(key)
    if seen[key] then return seen[key] end
    local value = redis.call('GET', P .. key)
    seen[key] = value
    found[#found + 1], found[#found + 2] = key, value
    return value
  end
  local function holder(identity)
    local owner = get('c:' .. identity)
    if owner then get('j:' .. owner) end
  end
  local job = get('j:' .. submission)
  get('r:' .. submission)
  if job then
    local fields = head(job)
    original = plain(fields[ORIGINAL])
    if claim == '' then holder(submission) end
    if fields[CLAIM] ~= '' then holder(plain(fields[CLAIM])) end
  end
  if claim ~= '' then holder(claim) end
  if original ~= '' then get('j:' .. original) else original = submission end
  get('l:' .. original)
  return found
end
