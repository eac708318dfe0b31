-- Write a step ahead that nobody claimed before; else return nothing.
-- ARGV: clock, submission, guard, scope, step id, what stands before the time in its value, and after.
local now, submission, guard, scope = clock(ARGV[1]), ARGV[2], ARGV[3], P .. 's:' .. ARGV[4]
local job = P .. 'j:' .. submission
local before = redis.call('GET', job)
if not before or string.sub(before, 1, #guard) ~= guard or redis.call('HEXISTS', scope, ARGV[5]) == 1 then
  return {}
end
-- The marks follow the guard.
local marks = string.match(before, '^[^\t]*', #guard + 1)
if not string.find(marks, 'u', 1, true) then
  redis.call('SET', job, guard .. 'u' .. string.sub(before, #guard + 1), 'KEEPTTL')
end
redis.call('HSET', scope, ARGV[5], ARGV[6] .. int(now) .. ARGV[7])
bump(scope)
redis.call('PERSIST', scope)
changed('s:' .. ARGV[4])
return {int(now)}
