-- Admit a delivery of which nothing is known; else return what is known, for the rules to decide.
-- ARGV: clock, submission, claim, guard, marks, keep, tail, body, reap, trace.
local now, submission, claim = clock(ARGV[1]), ARGV[2], ARGV[3]
local job = P .. 'j:' .. submission
local known
if claim == '' then
  known = redis.call('EXISTS', job, P .. 'r:' .. submission, P .. 'l:' .. submission, P .. 'c:' .. submission)
else
  known = redis.call('EXISTS', job, P .. 'r:' .. submission, P .. 'l:' .. submission, P .. 'c:' .. claim)
end
if known > 0 then return look(now, submission, claim, '') end
local at = int(now)
redis.call('SET', job,
  ARGV[4] .. ARGV[5] .. '\t' .. at .. '\t' .. later(now, ARGV[6]) .. '\t\t' .. ARGV[7] .. '\n' .. ARGV[8])
if claim ~= '' then redis.call('SET', P .. 'c:' .. claim, submission) end
log(now, submission)
if ARGV[9] ~= '' then redis.call('ZADD', P .. 'reap', later(now, ARGV[9]), submission) end
if ARGV[10] ~= '' then put_of_trace(ARGV[10], 'j:' .. submission, '', math.ceil(ARGV[6] / 1000)) end
return {at}
