-- Dissects the shims of docs/wire.md, and hands the QUIC packet behind each to Wireshark's own
-- dissector. Copy this file to a folder of plugins (Help, About Wireshark, Folders), or name it:
--   tshark -X lua_script:pathmark.lua -r capture.pcapng

local shim = Proto("pathmark", "pathmark shim")

local kinds = { [0] = "VCP", [1] = "XCP", [2] = "Quick-Start" }
local codes = { [0] = "not VCP", [1] = "LOW", [2] = "HIGH", [3] = "OVER" }
local functions = {
  [0] = "request",
  [1] = "answered request",
  [2] = "confirmation",
  [3] = "answered confirmation",
  [8] = "report of approved rate",
}
local corruption = {
  [0] = "nothing declared",
  [1] = "0.1 %",
  [2] = "0.3 %",
  [3] = "1 %",
  [4] = "2 %",
  [5] = "5 %",
  [6] = "10 %",
  [7] = "30 %",
}

local fields = {
  kind = ProtoField.uint8("pathmark.kind", "Kind", base.DEC, kinds, 0x07),
  version = ProtoField.uint8("pathmark.version", "Version", base.DEC, nil, 0xf0),
  length = ProtoField.uint8("pathmark.length", "Length in words", base.DEC, nil, 0x0f),
  check = ProtoField.uint16("pathmark.check", "Check", base.HEX),
  wrong = ProtoField.bool("pathmark.check_wrong", "Check is wrong"),
  router = ProtoField.uint16("pathmark.router", "Router"),
  translated = ProtoField.bool("pathmark.translated", "Translated"),
  declared = ProtoField.uint8("pathmark.declared", "Declared corruption", base.DEC, corruption),
  code = ProtoField.uint8("pathmark.vcp.code", "Code", base.DEC, codes, 0xc0),
  bise = ProtoField.bool("pathmark.vcp.bise", "BISE", 8, nil, 0x20),
  carried = ProtoField.bool("pathmark.vcp.r_carried", "r is carried", 8, nil, 0x10),
  hops = ProtoField.uint8("pathmark.vcp.hops", "Hops"),
  r = ProtoField.uint16("pathmark.vcp.r", "r, in 1/65536"),
  t_rho = ProtoField.uint16("pathmark.vcp.t_rho", "Measuring interval, in ms"),
  load = ProtoField.uint8("pathmark.vcp.load", "Load, in 1/128"),
  class = ProtoField.uint8("pathmark.vcp.rtt_class", "Class of the least round-trip time"),
  format = ProtoField.uint8("pathmark.xcp.format", "Format"),
  stamped = ProtoField.bool("pathmark.xcp.stamped", "Stamped"),
  ttl = ProtoField.uint8("pathmark.xcp.ttl", "xcp_ttl"),
  covers = ProtoField.uint16("pathmark.xcp.covers", "Packets that it stands for"),
  rtt = ProtoField.double("pathmark.xcp.rtt", "Round-trip time, in ms"),
  x = ProtoField.double("pathmark.xcp.x", "X, in seconds"),
  delta = ProtoField.double("pathmark.xcp.delta", "Change of rate, in bytes per second"),
  last = ProtoField.bytes("pathmark.xcp.last_router", "Address of the last router"),
  window = ProtoField.uint16("pathmark.xcp.window", "Window, in packets"),
  feedback = ProtoField.double("pathmark.xcp.feedback", "Change of the window, in packets"),
  rate = ProtoField.uint64("pathmark.qs.rate", "Rate, in bytes per second"),
  qs_ttl = ProtoField.uint8("pathmark.qs.ttl", "QS TTL"),
  what = ProtoField.uint8("pathmark.qs.function", "Function", base.DEC, functions, 0xf0),
  qs_rtt = ProtoField.uint16("pathmark.qs.rtt", "Round-trip time, at most, in ms"),
  nonce = ProtoField.bytes("pathmark.qs.nonce", "Nonce"),
}
local list = {}
for _, field in pairs(fields) do
  list[#list + 1] = field
end
shim.fields = list

local bad_check = ProtoExpert.new("pathmark.check.bad", "The check is wrong",
  expert.group.CHECKSUM, expert.severity.WARN)
shim.experts = { bad_check }

-- Returns the remainder of section 2, bit by bit and without operators that older Lua lacks.
local function check_of(tvb, len)
  local value = 0
  local function shift(bit)
    local out = value >= 0x8000
    value = (value * 2 + bit) % 0x10000
    if out then
      -- Exclusive or with 0x7135.
      local poly, result, place = 0x7135, 0, 1
      local rest = value
      for _ = 1, 16 do
        if rest % 2 ~= poly % 2 then
          result = result + place
        end
        rest, poly, place = math.floor(rest / 2), math.floor(poly / 2), place * 2
      end
      value = result
    end
  end
  for at = 0, len - 1 do
    for bit = 0, 7 do
      shift(tvb(at, 1):bitfield(bit, 1))
    end
  end
  for _ = 1, 16 do
    shift(0)
  end
  return 0xffff - value
end

local function signed(high, low)
  local value = high * 2 ^ 32 + low
  if high >= 2 ^ 31 then
    value = value - 2 ^ 64
  end
  return value
end

local function vcp(tvb, tree)
  tree:add(fields.code, tvb(4, 1))
  tree:add(fields.bise, tvb(4, 1))
  tree:add(fields.carried, tvb(4, 1))
  tree:add(fields.translated, tvb(4, 1), tvb(4, 1):bitfield(4, 1) == 1)
  tree:add(fields.declared, tvb(4, 1), tvb(4, 1):bitfield(5, 3))
  tree:add(fields.hops, tvb(5, 1))
  tree:add(fields.router, tvb(6, 2))
  tree:add(fields.r, tvb(8, 2))
  tree:add(fields.t_rho, tvb(10, 2))
  tree:add(fields.load, tvb(12, 1))
  tree:add(fields.class, tvb(13, 1))
  local load = tvb(12, 1):uint() * 100 / 128
  local code = codes[tvb(4, 1):bitfield(0, 2)]
  return string.format("%s, load %.0f %%, router %d", code, load, tvb(6, 2):uint())
end

-- Adds the fields that both forms of XCP have, and returns whether a router has stamped.
local function xcp_format(tvb, tree)
  local format = tvb(4, 1):bitfield(0, 4)
  local stamped = tvb(4, 1):bitfield(4, 1) == 1
  tree:add(fields.format, tvb(4, 1), format)
  tree:add(fields.translated, tvb(4, 1), format == 5 or format == 7)
  tree:add(fields.stamped, tvb(4, 1), stamped)
  tree:add(fields.ttl, tvb(5, 1))
  return stamped
end

local function told(stamped, text)
  return (stamped and "stamped, " or "requested, ") .. text
end

local function xcp_full(tvb, tree, len)
  local stamped = xcp_format(tvb, tree)
  tree:add(fields.declared, tvb(4, 1), tvb(4, 1):bitfield(5, 3))
  tree:add(fields.covers, tvb(6, 2))
  tree:add(fields.rtt, tvb(8, 4), tvb(8, 4):uint() / 1000)
  local x = tvb(12, 4):uint() * 2 ^ 32 + tvb(16, 4):uint()
  tree:add(fields.x, tvb(12, 8), x / 2 ^ 40)
  local delta = signed(tvb(20, 4):uint(), tvb(24, 4):uint()) / 2 ^ 16
  tree:add(fields.delta, tvb(20, 8), delta)
  tree:add(fields.last, tvb(28, len - 32))
  tree:add(fields.router, tvb(len - 4, 2))
  return told(stamped, string.format("%.0f B/s, router %d", delta, tvb(len - 4, 2):uint()))
end

local function xcp_compact(tvb, tree)
  local stamped = xcp_format(tvb, tree)
  tree:add(fields.covers, tvb(4, 1), tvb(4, 1):bitfield(5, 3) + 1)
  tree:add(fields.window, tvb(6, 2))
  tree:add(fields.rtt, tvb(8, 2), tvb(8, 2):uint())
  local mantissa = tvb(10, 2):bitfield(0, 13)
  if mantissa >= 4096 then
    mantissa = mantissa - 8192
  end
  local packets = mantissa * 16 ^ (tvb(10, 2):bitfield(13, 3) - 3)
  tree:add(fields.feedback, tvb(10, 2), packets)
  tree:add(fields.router, tvb(12, 2))
  return told(stamped, string.format("%.2f packets, router %d", packets, tvb(12, 2):uint()))
end

local function quick_start(tvb, tree)
  local exponent, mantissa = tvb(4, 2):bitfield(0, 5), tvb(4, 2):bitfield(5, 11)
  local rate = mantissa
  if exponent > 0 then
    rate = (2048 + mantissa) * 2 ^ (exponent - 1)
  end
  tree:add(fields.rate, tvb(4, 2), UInt64.new(rate % 2 ^ 32, math.floor(rate / 2 ^ 32)))
  tree:add(fields.qs_ttl, tvb(6, 1))
  tree:add(fields.what, tvb(7, 1))
  local class = tvb(7, 1):bitfield(4, 4)
  tree:add(fields.qs_rtt, tvb(7, 1), class == 0 and 0 or 2 ^ (class - 1))
  tree:add(fields.nonce, tvb(8, 6))
  local what = functions[tvb(7, 1):bitfield(0, 4)] or "unknown function"
  return string.format("%s, %.0f B/s", what, rate)
end

-- Returns the length of the shim at the front of a payload, or nil if there is none.
local function length_of(tvb)
  if tvb:len() < 8 or tvb(0, 1):bitfield(0, 5) ~= 1 or tvb(2, 2):uint() ~= 0x7a3d then
    return nil
  end
  local words = tvb(1, 1):bitfield(4, 4)
  if words < 2 or tvb:len() < words * 4 then
    return nil
  end
  return words * 4
end

local quic = Dissector.get("quic")

-- Dissects a QUIC packet. An error in it is shown, and is none of this script.
local function rest(tvb, pinfo, tree)
  pcall(quic.call, quic, tvb, pinfo, tree)
end

function shim.dissector(tvb, pinfo, tree)
  local len = length_of(tvb)
  if not len then
    rest(tvb, pinfo, tree)
    return tvb:len()
  end
  local kind = tvb(0, 1):bitfield(5, 3)
  local known = tvb(1, 1):bitfield(0, 4) == 1
  local name = kinds[kind] or ("unknown kind " .. kind)
  local branch = tree:add(shim, tvb(0, len), "Shim, " .. name)
  branch:add(fields.kind, tvb(0, 1))
  branch:add(fields.version, tvb(1, 1))
  branch:add(fields.length, tvb(1, 1))
  local text
  if known and kind == 0 and len == 16 then
    text = vcp(tvb, branch)
  elseif known and kind == 1 and (len == 36 or len == 48) then
    text = xcp_full(tvb, branch, len)
  elseif known and kind == 1 and len == 16 then
    text = xcp_compact(tvb, branch)
  elseif known and kind == 2 and len == 16 then
    text = quick_start(tvb, branch)
  end
  if text then
    branch:append_text(": " .. text)
  end
  branch:add(fields.check, tvb(len - 2, 2))
  if check_of(tvb, len - 2) ~= tvb(len - 2, 2):uint() then
    branch:add(fields.wrong, tvb(len - 2, 2), true)
    branch:add_proto_expert_info(bad_check)
  end
  if tvb:len() > len then
    rest(tvb(len):tvb(), pinfo, tree)
  end
  pinfo.cols.protocol:prepend(name .. "/")
  if text then
    pinfo.cols.info:prepend("[" .. text .. "] ")
  end
  return tvb:len()
end

-- Whether a payload begins a QUIC connection (RFC 9000 section 17.2, and RFC 9369).
local function is_initial(tvb)
  if tvb:len() < 1200 or tvb(0, 1):bitfield(0, 2) ~= 3 then
    return false
  end
  local version = tvb(1, 4):uint()
  return version == 1 or version == 0x6b3343cf
end

-- A connection begins without shims, and whichever dissector takes its first packet gets the others.
shim:register_heuristic("udp", function(tvb, pinfo, tree)
  if not length_of(tvb) and not is_initial(tvb) then
    return false
  end
  pinfo.conversation = shim
  shim.dissector(tvb, pinfo, tree)
  return true
end)

DissectorTable.get("udp.port"):add_for_decode_as(shim)
