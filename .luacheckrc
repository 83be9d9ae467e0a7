-- Read by `make lua` over the bundles in build/lua: what Redis and fakeredis both offer, and nothing else.
-- fakeredis also has os and require, which Redis lacks; Redis also has cmsgpack, struct and bit, which
-- fakeredis lacks. A name that is not listed here does not run everywhere.

stds.broker = {
   read_globals = {
      "KEYS", "ARGV",
      redis = {
         fields = {
            "call", "pcall", "error_reply", "status_reply", "log",
            "acl_check_cmd", -- Redis from 7.0; nobody may count on it
            "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING",
         },
      },
      cjson = { fields = { "encode", "decode", "null" } },
      string = {
         fields = {
            "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse", "sub",
            "upper",
         },
      },
      table = { fields = { "concat", "insert", "remove", "sort" } },
      math = { fields = { "abs", "ceil", "floor", "fmod", "huge", "max", "min", "modf" } },
      "setmetatable", "tonumber", "tostring", "type", "pairs", "ipairs", "next", "select", "unpack",
      "pcall", "error", "assert",
   },
}

std = "broker"
max_line_length = 120
-- A leaked global makes every later script on the same fakeredis server fail, so none may be made.
allow_defined = false
-- A library is joined whole; not every script calls each of its functions.
ignore = { "211/_.*", "241", "331" }
