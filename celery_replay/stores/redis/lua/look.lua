-- Read what the rules look at. ARGV: clock, submission, claim, original.
return look(clock(ARGV[1]), ARGV[2], ARGV[3], ARGV[4])
