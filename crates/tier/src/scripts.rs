//! The scripts that run inside the tier, each in one piece.
//!
//! `members` is a sorted set: who is there, until when on the tier's clock, in milliseconds. `marks` is a hash: for each table that answers
//! were read from a tag, which is gone as soon as the table is written. A tag is made when it is asked for and missing, and never the same
//! twice; so whatever gets lost, by eviction, FLUSHALL or a restart, can only make answers worthless. The third key never exists:
//! deleting it changes nothing, and a server that may not be written, as a replica, refuses it.

/// Asks for the tags of tables, and for the answer if it was read at just these.
///
/// `KEYS`: members, marks, nothing, answer. `ARGV`: who asks, a new tag, the tags that the asker's own answer was read at or nothing, bytes of the largest
/// answer that it wants, fields. Gives the time alone when nothing may be given out; else the time and the tags, and behind these 1 if the own answer is
/// good, or the answer.
pub(crate) const ASK: &str = r"
redis.call('DEL', KEYS[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCOUNT', KEYS[1], '-inf', now) > 0 then
    return {now}
end
local fields = {}
for i = 5, #ARGV do fields[i - 4] = ARGV[i] end
local marks = redis.call('HMGET', KEYS[2], unpack(fields))
for i = 1, #fields do
    if not marks[i] then
        redis.call('HSET', KEYS[2], fields[i], ARGV[2])
        marks[i] = ARGV[2]
    end
end
marks = table.concat(marks)
if marks == ARGV[3] then return {now, marks, 1} end
if redis.call('STRLEN', KEYS[4]) <= tonumber(ARGV[4]) then
    local answer = redis.call('GET', KEYS[4])
    if answer and string.sub(answer, 1, #marks) == marks then
        return {now, marks, string.sub(answer, #marks + 1)}
    end
end
return {now, marks}
";

/// A member says until when it is there, and sees to it that who has been gone for long is not waited for.
///
/// `KEYS`: members, marks, nothing. `ARGV`: who, until when, after how long one is forgotten, the name whose earlier process is replaced or nothing, how
/// long all is kept without members. Gives the time, 1 if it was there all the time, and all members.
pub(crate) const BEAT: &str = r"
redis.call('DEL', KEYS[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not mine or tonumber(mine) <= now or tonumber(ARGV[2]) <= now then return {now, 0, {}} end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
local gone = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
if ARGV[4] ~= '' then
    for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
        if string.sub(member, 1, #ARGV[4] + 1) == ARGV[4] .. '\0' then
            gone = gone + redis.call('ZREM', KEYS[1], member)
        end
    end
end
if gone > 0 then redis.call('DEL', KEYS[2]) end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return {now, 1, redis.call('ZRANGE', KEYS[1], 0, 999)}
";

/// A process becomes a member, again or for the first time.
///
/// `KEYS`: members, marks, nothing. `ARGV`: who, until when, 1 if all tags end, the other members that it knew. Gives the time, and 1 if that is done.
/// Those whom the tier has forgotten are members whose time is over: nothing is given out until they are back, or forgotten again.
pub(crate) const JOIN: &str = r"
redis.call('DEL', KEYS[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(ARGV[2]) <= now then return {now, 0} end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
    for i = 4, #ARGV do redis.call('ZADD', KEYS[1], 'NX', now, ARGV[i]) end
end
if ARGV[3] == '1' then redis.call('DEL', KEYS[2]) end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return {now, 1}
";
