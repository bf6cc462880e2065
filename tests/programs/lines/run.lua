local t, words = {}, {}
for i = 1, 60 do t[i] = {key = i * 7 % 11, name = "n" .. i} end
table.sort(t, function(a, b) return a.key < b.key end)
for w in ("the quick brown fox jumps over it"):gmatch("%a+") do words[#words + 1] = w:upper() end
local co = coroutine.wrap(function(a) for i = 1, 5 do a = coroutine.yield(a + i) end return 0 end)
for i = 1, 5 do co(i) end
print(pcall(error, {code = 2}), string.format("%5.2f %s %d %q", 3.5, "x", 7, "q\n"), #words)
local m = setmetatable({}, {__index = function(_, k) return k .. "!" end, __add = function() end})
print(m.a, m + 1, select("#", table.unpack(words)), math.floor(7.5), 7 // 2, 7 % -3, 2 ^ 10)
print(load("return 1 + ...")(5), tostring(12345.678), tonumber("0x1p4"), ("x"):rep(20, ","))
goto done
::done:: collectgarbage() os.time() print(string.pack("<i4", 7):byte(1, -1), utf8.char(228, 8364))
