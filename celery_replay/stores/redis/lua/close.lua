-- Close an attempt that is still the owner, and alone; else return nothing.
-- ARGV: clock, submission, guard, new guard, marks, keep, canvas, tail, body, claim, scope, reap, ttl, trace,
--       count of steps, each step's id and value, count of blobs, each blob's reference and body.
local now, submission, guard, claim, scope = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[10], P .. 's:' .. ARGV[11]
local job = P .. 'j:' .. submission
local before = redis.call('GET', job)
if not before or string.sub(before, 1, #guard) ~= guard then return {} end

local trace = P .. 't:' .. ARGV[14]
-- Asked in one go, since most jobs have none of them.
local more = redis.call('EXISTS', P .. 'r:' .. submission, scope, trace) > 0
if more and redis.call('EXISTS', P .. 'r:' .. submission) == 1 then return {} end

local settled, arg = {}, 15
for i = 1, tonumber(ARGV[arg]) do settled[ARGV[arg + 1]] = ARGV[arg + 2]; arg = arg + 2 end
local steps = more and redis.call('HGETALL', scope) or {}
for i = 1, #steps, 2 do
  -- A step that was begun, and of whose end this attempt does not tell.
  if steps[i] ~= '' and string.sub(steps[i + 1], 1, 1) == 'c' and not settled[steps[i]] then return {} end
end

local ttl = ARGV[13]
local value = ARGV[4] .. ARGV[5] .. '\t' .. int(now) .. '\t' .. later(now, ARGV[6]) .. '\t'
  .. later(now, ARGV[7]) .. '\t' .. ARGV[8] .. '\n' .. ARGV[9]
if ttl == '' then redis.call('SET', job, value) else redis.call('SET', job, value, 'PX', ttl) end
if ARGV[12] == '' then redis.call('ZREM', P .. 'reap', submission)
else redis.call('ZADD', P .. 'reap', later(now, ARGV[12]), submission) end
for id, value in pairs(settled) do redis.call('HSET', scope, id, value) end
if next(settled) then
  bump(scope)
  changed('s:' .. ARGV[11])
end
if ttl ~= '' then
  if claim ~= '' then redis.call('PEXPIRE', P .. 'c:' .. claim, ttl) end
  if next(settled) or #steps > 0 then redis.call('PEXPIRE', scope, ttl) end
end
local blobs, lasts = tonumber(ARGV[arg + 1]), math.ceil(ARGV[6] / 1000)
for i = 1, blobs do put_blob(ARGV[arg + 2 * i], ARGV[arg + 2 * i + 1], ARGV[14], lasts) end
if more or blobs > 0 then live(trace, lasts) end
changed('j:' .. submission)
return {int(now)}
