-- Say which run of the store this is, and begin another one where it may have lost what it knew: nobody gets a resource
-- for a while then, and no token is given that is lower than one that may have been given before.
-- ARGV: clock; the run that the caller knows, and the highest token that may have been given in it; the same as somebody
--       else keeps it; how long to wait; a name for a new run. Each but the last two may be empty. With '?' in place of
--       what somebody else keeps, nothing is begun: the answer is empty where that matters.
-- Returns its name, the time, the lowest token, since and until when to wait, '1' where that goes for tokens, too.
local now, known, highest, kept, name = clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], ARGV[6]
local run, key = redis.call('GET', P .. 'run'), P .. 'runs'
local function about(field) return redis.call('HGET', key, field) or '' end
local past, floor, ends = about('past'), tonumber(about('floor')) or 0, tonumber(about('until')) or 0
-- Some who run Redis for others allow nobody to look.
local told = redis.pcall('INFO', 'server')
local server = type(told) == 'string' and string.match(told, 'run_id:(%w+)') or ''
local before = about('server')

local lost
if not run then
  -- Empty: that is how it begins, unless somebody remembers that there was something.
  if known ~= '' or tonumber(kept) then lost = known end
elseif server ~= before and server ~= '' and before ~= '' then
  -- Restarted, or a replica in its place: nobody can tell whether that was told everything.
  lost = run
elseif known ~= '' and known ~= run and not string.find(past, ' ' .. known .. ' ', 1, true) then
  -- Emptied, and somebody who knew nothing of it came first.
  lost = known
end
if kept == '?' then
  if lost or not run then return {} end
  kept = ''
end
local unsure = about('unsure')
local better = not lost and unsure ~= '' and now < ends and highest ~= '' and known == about('lost')

if lost then
  unsure = kept == '' and (highest == '' or known ~= lost) and '1' or ''
  if now >= ends then redis.call('HSET', key, 'since', int(now)) end
  ends = now + tonumber(ARGV[5])
  redis.call('HSET', key, 'until', int(ends), 'lost', lost)
elseif better then
  unsure = ''
end
if lost or better then
  floor = math.max(floor, tonumber(highest) or 0, tonumber(kept) or 0)
  redis.call('HSET', key, 'floor', int(floor), 'unsure', unsure)
end
if lost or better or not run then
  local names = {}
  for one in string.gmatch(table.concat({lost or '', run or '', past}, ' '), '%w+') do names[#names + 1] = one end
  redis.call('HSET', key, 'past', ' ' .. table.concat(names, ' ', 1, math.min(#names, 20)) .. ' ')
  redis.call('SET', P .. 'run', name)
  run = name
end
if server ~= before and server ~= '' then redis.call('HSET', key, 'server', server) end
return {run, int(now), int(floor), about('since'), int(ends), unsure}
