-- One POST, again and again: wrk -s request.lua URL -- BODY-FILE HEADER TEXT HEADER TEXT ...
-- wrk formats it once, after init, as long as there is no request() here.
function init(args)
   local file = assert(io.open(args[1], "rb"))
   wrk.method = "POST"
   for place = 2, #args, 2 do
      wrk.headers[args[place]] = args[place + 1]
   end
   wrk.body = file:read("*a")
   file:close()
end
