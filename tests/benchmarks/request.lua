-- One POST, again and again: wrk -s request.lua URL -- BODY-FILE CONTENT-TYPE
-- wrk formats it once, after init, as long as there is no request() here.
function init(args)
   local file = assert(io.open(args[1], "rb"))
   wrk.method = "POST"
   wrk.headers["Content-Type"] = args[2]
   wrk.body = file:read("*a")
   file:close()
end
