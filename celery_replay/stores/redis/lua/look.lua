-- Read what the rules look at. ARGV: clock, submission, claim, original, resources.
local submission, claim = ARGV[2], ARGV[3]
local found = look(clock(ARGV[1]), submission, claim, ARGV[4])
local function add(key, value) found[#found + 1], found[#found + 2] = key, value end
for i = 5, #ARGV do add('lease:' .. ARGV[i], redis.call('GET', P .. 'lease:' .. ARGV[i])) end
local scope = 's:' .. (claim == '' and submission or claim)
add(scope, redis.call('HGETALL', P .. scope))
return found
