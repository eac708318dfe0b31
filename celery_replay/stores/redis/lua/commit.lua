-- Write what the rules decided, if all that they looked at is as it was.
-- ARGV: run; count of checks, of each: kind, key, expected, limit; then of each command: name, count of arguments, arguments,
-- of which the first is a key.
local CHECKS = {
  -- A value, by its digest.
  value = function(key, expected)
    local value = redis.call('GET', key)
    if not value then return expected == '' end
    return redis.sha1hex(value) == expected
  end,
  -- A hash, by its version.
  hash = function(key, expected) return (redis.call('HGET', key, '') or '') == expected end,
  -- The beginning of a sorted set.
  set = function(key, expected, limit)
    return redis.sha1hex(table.concat(redis.call('ZRANGE', key, 0, limit), '\n')) == expected
  end,
}

local function trace_keys(trace)
  local keys = {P .. 't:' .. trace}
  for _, field in ipairs(redis.call('HKEYS', keys[1])) do
    if string.sub(field, 1, 2) == 'x:' then keys[#keys + 1] = P .. field end
  end
  return keys
end

local COMMANDS = {
  log = function(submission, now) log(tonumber(now), submission) end,
  live = function(key, ttl) live(P .. key, ttl, true) end,
  of_trace = put_of_trace,
  -- A trace with its large values: without an end while somebody has to decide about its job.
  hold = function(trace)
    for _, key in ipairs(trace_keys(trace)) do redis.call('PERSIST', key) end
  end,
  let_go = function(trace, ttl)
    for _, key in ipairs(trace_keys(trace)) do live(key, ttl, true) end
  end,
  bump = function(key) bump(P .. key) end,
  changed = changed,
  blob = put_blob,
  unblob = drop_blob,
  unblob_all = function(trace)
    for _, field in ipairs(redis.call('HKEYS', P .. 't:' .. trace)) do
      if string.sub(field, 1, 2) == 'x:' then drop_blob(string.sub(field, 3), trace) end
    end
  end,
  stub = function(reference, body)
    local known = redis.call('HGET', P .. 'x:' .. reference, '')
    if known and string.sub(known, 1, 1) ~= '>' then redis.call('HSET', P .. 'x:' .. reference, '', body) end
    redis.call('SREM', P .. 'unplaced', reference)
  end,
  tally = function(group, description, newest, message, filed, unresolved, first, last, hour)
    local key = P .. 'g:' .. group
    local new = redis.call('HSETNX', key, 's', first) == 1
    if new or tonumber(filed) > 0 then
      redis.call('HSET', key, 'd', description, 'n', newest, 'e', message, 'l', last)
      redis.call('ZADD', P .. 'groups', last, group)
    end
    redis.call('HINCRBY', key, 'f', filed)
    if redis.call('HINCRBY', key, 'u', unresolved) > 0 then
      redis.call('ZADD', P .. 'waiting', redis.call('HGET', key, 'l'), group)
    else
      redis.call('ZREM', P .. 'waiting', group)
    end
    if tonumber(filed) > 0 then redis.call('HINCRBY', P .. 'trend:' .. group, hour, filed) end
  end,
  silence = function(submission, erased)
    for _, group in ipairs(redis.call('ZRANGE', P .. 'groups', 0, -1)) do
      local key = P .. 'g:' .. group
      if redis.call('HGET', key, 'n') == submission then redis.call('HSET', key, 'e', erased) end
    end
  end,
}

local refused = other_run(ARGV[1])
if refused then return refused end
local arg = 3
for _ = 1, tonumber(ARGV[2]) do
  if not CHECKS[ARGV[arg]](P .. ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3]) then return 0 end
  arg = arg + 4
end
while ARGV[arg] do
  local name, count = ARGV[arg], tonumber(ARGV[arg + 1])
  local arguments = {unpack(ARGV, arg + 2, arg + 1 + count)}
  if COMMANDS[name] then
    COMMANDS[name](unpack(arguments))
  else
    arguments[1] = P .. arguments[1]
    redis.call(name, unpack(arguments))
  end
  arg = arg + 2 + count
end
return 1
