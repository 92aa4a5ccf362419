-- The one request that every server gets.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"x":[1.5,2.5,3.5,4.5]}'
