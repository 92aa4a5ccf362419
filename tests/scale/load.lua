-- POSTs to each path of the arguments in turn: wrk ... -- PATH PATH ...
local requests = {}
local turn = 0

function init(paths)
  local body = '{"x":[1.5,2.5,3.5,4.5]}'
  local headers = { ["Content-Type"] = "application/json" }
  for _, path in ipairs(paths) do
    requests[#requests + 1] = wrk.format("POST", path, headers, body)
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end
