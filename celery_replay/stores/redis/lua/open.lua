-- Admit a delivery of which nothing is known; else return what is known, for the rules to decide.
-- ARGV: clock, run, until when the rules have to decide, submission, claim, guard, marks, keep, tail, body, reap, trace.
local refused = other_run(ARGV[2])
if refused then return refused end
local now, submission, claim = clock(ARGV[1]), ARGV[4], ARGV[5]
local job = P .. 'j:' .. submission
local known
if claim == '' then
  known = redis.call('EXISTS', job, P .. 'r:' .. submission, P .. 'l:' .. submission, P .. 'c:' .. submission)
else
  known = redis.call('EXISTS', job, P .. 'r:' .. submission, P .. 'l:' .. submission, P .. 'c:' .. claim)
end
if known > 0 or now < tonumber(ARGV[3]) then return look(now, submission, claim, '') end
local at = int(now)
redis.call('SET', job,
  ARGV[6] .. ARGV[7] .. '\t' .. at .. '\t' .. later(now, ARGV[8]) .. '\t\t' .. ARGV[9] .. '\n' .. ARGV[10])
if claim ~= '' then redis.call('SET', P .. 'c:' .. claim, submission) end
log(now, submission)
if ARGV[11] ~= '' then redis.call('ZADD', P .. 'reap', later(now, ARGV[11]), submission) end
if ARGV[12] ~= '' then put_of_trace(ARGV[12], 'j:' .. submission, '', math.ceil(ARGV[8] / 1000)) end
return {at}
