// The driver matrix by Node's drivers: `node program.mjs mysql2|mariadb`.

import crypto from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const env = (name) => process.env[`CONFORM_${name}`];
const require = createRequire(path.join(env('NODE_MODULES') ?? process.cwd(), 'x.js'));
const NAME = process.argv[2];
const mysql2 = NAME === 'mysql2' ? require('mysql2') : null;
const mariadb = NAME === 'mariadb' ? require('mariadb/callback') : null;

const DATABASE = env('DATABASE');
const OTHER_DATABASE = env('OTHER_DATABASE');
// As a word of its own: its digits may stand in other values.
const PORT_WORD = new RegExp(`\\b${env('PORT')}\\b`, 'g');
const ALL_BYTES = Buffer.from(Array.from({ length: 256 }, (_, index) => index));

class Skip extends Error {}

function canonical(value) {
  if (value === undefined) return null;
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return value;
  if (typeof value === 'bigint') return `bigint ${value}`;
  if (Buffer.isBuffer(value)) {
    if (value.length > 300) return `bytes of ${value.length}: ${crypto.createHash('sha256').update(value).digest('hex').slice(0, 16)}`;
    return `0x${value.toString('hex')}`;
  }
  if (value instanceof Date) return `date ${Number.isNaN(value.getTime()) ? 'none' : value.toISOString()}`;
  if (typeof value === 'string') {
    const text = value.replaceAll(OTHER_DATABASE, 'OTHER').replaceAll(DATABASE, 'DATABASE').replace(PORT_WORD, 'PORT');
    if (text.length > 300) return `text of ${text.length}: ${crypto.createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
    return text;
  }
  if (Array.isArray(value)) return value.map(canonical);
  return Object.fromEntries(Object.entries(value).filter(([, item]) => typeof item !== 'function').map(([key, item]) => [key, canonical(item)]));
}

function equal(got, wanted, what = '') {
  const [a, b] = [JSON.stringify(canonical(got)), JSON.stringify(canonical(wanted))];
  if (a !== b) throw new Error(`${what}: got ${a}, wanted ${b}`.slice(0, 1500));
}

const promised = (call) => new Promise((done, failed) => call((error, ...values) => (error ? failed(error) : done(values))));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// ------------------------------------------------------------------------------------------------------- connections

function options(more = {}) {
  const { tls, compress, multi, ...rest } = more;
  return {
    host: env('HOST'), port: Number(env('PORT')), user: env('USER'), password: env('PASSWORD'), database: DATABASE,
    ...(tls ? { ssl: { ca: fs.readFileSync(env('CA')) } } : {}),
    ...(compress ? { compress: true } : {}),
    ...(multi ? { multipleStatements: true } : {}),
    ...(NAME === 'mysql2' ? { supportBigNumbers: true, dateStrings: true } : { bigIntAsNumber: false, dateStrings: true, permitLocalInfile: !!rest.local_infile, checkDuplicate: false, allowPublicKeyRetrieval: true }),
    ...Object.fromEntries(Object.entries(rest).filter(([key]) => key !== 'local_infile')),
  };
}

const open_connections = new Set();

class Connection {
  constructor(raw) {
    this.raw = raw;
    open_connections.add(this);
    raw.on('error', () => {});
  }

  // Rows, or the OK packet's figures.
  async query(sql, values) {
    const [found, fields] = await promised((done) => this.raw.query(sql, values ?? [], done));
    this.fields = fields;
    return found;
  }

  async execute(sql, values) {
    const [found] = await promised((done) => this.raw.execute(sql, values ?? [], done));
    return found;
  }

  async rows(sql, values) {
    return this.plain(await this.query(sql, values));
  }

  // Rows as lists of values: names that clash would hide some.
  plain(found) {
    return Array.from(found, (row) => Object.values(row));
  }

  async one(sql, values) {
    return (await this.rows(sql, values))[0][0];
  }

  id() {
    return this.raw.threadId;
  }

  async begin() { await promised((done) => this.raw.beginTransaction(done)); }
  async commit() { await promised((done) => this.raw.commit(done)); }
  async rollback() { await promised((done) => this.raw.rollback(done)); }
  async ping() { await promised((done) => this.raw.ping(done)); }

  async close() {
    open_connections.delete(this);
    await Promise.race([promised((done) => this.raw.end(done)).catch(() => {}), pause(2000)]);
  }

  destroy() {
    open_connections.delete(this);
    this.raw.destroy();
  }
}

async function connect(more) {
  const raw = (mysql2 ?? mariadb).createConnection(options(more));
  raw.on('error', () => {});
  await promised((done) => raw.connect(done));
  return new Connection(raw);
}

async function error_of(promise) {
  try {
    await (typeof promise === 'function' ? promise() : promise);
  } catch (error) {
    if (error instanceof Skip) throw error;
    return [error.code ?? null, error.errno ?? null, error.sqlState ?? null, (error.sqlMessage ?? error.message ?? '').replace(/conn:-?\d+/g, 'conn:N').replace(/^\(conn[^)]*\) /, '').split('\n')[0]];
  }
  throw new Error('there was no error');
}

async function value_or_error(promise) {
  try {
    return ['value', await promise];
  } catch (error) {
    return error_of(Promise.reject(error));
  }
}

async function table(connection, name, columns) {
  await connection.query(`DROP TABLE IF EXISTS ${name}`);
  await connection.query(`CREATE TABLE ${name} (${columns}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`);
}

const TYPES = `id INT PRIMARY KEY, ti TINYINT, si SMALLINT UNSIGNED, mi MEDIUMINT, i INT UNSIGNED, bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE,
  de DECIMAL(40,10), da DATE, tm TIME(6), dt DATETIME(6), ts TIMESTAMP(3) NULL, y YEAR, c CHAR(10), v VARCHAR(200), tx TEXT, vb VARBINARY(256),
  bl LONGBLOB, j JSON, e ENUM('one','two'), s SET('x','y','z'), bt BIT(12), z INT(6) ZEROFILL`;
const COLUMNS = 'id, ti, si, mi, i, bi, bu, f, d, de, da, tm, dt, ts, y, c, v, tx, vb, bl, j, e, s, bt, z';
const ROWS = [
  [1, 127, 65535, 8388607, 4294967295, '9223372036854775807', '18446744073709551615', 1.5, 1.7976931348623157e308, '123456789012345678901234567890.0123456789',
    '9999-12-31', '838:59:58.999999', '2038-01-19 03:14:07.999999', '2024-02-29 23:59:59.123', 2155, 'char', "Zürich 🦀 'quoted' \\ back", 'text '.repeat(50), ALL_BYTES,
    Buffer.concat(Array(40).fill(ALL_BYTES)), '{"a": [1, null, "ü🦀"]}', 'two', 'x,z', null, 42],
  [2, ...Array(24).fill(null)],
  [3, -128, 0, -8388608, 0, '-9223372036854775808', '0', -1.25, -0.1, '-0.0000000001', '1000-01-01', '-01:00:01.000000', '1000-01-01 00:00:00.000000',
    '1971-01-01 00:00:00.000', 1901, '', '', '', Buffer.alloc(0), Buffer.alloc(0), '[]', 'one', '', null, 0],
];

async function write_types(connection, method) {
  await table(connection, 't_types', TYPES);
  for (const row of ROWS) await connection[method](`INSERT INTO t_types (${COLUMNS}) VALUES (${Array(25).fill('?').join(', ')})`, row);
  await connection.query("UPDATE t_types SET bt = b'101010101010' WHERE id = 1");
}

function check_types(rows) {
  equal(rows.length, 3);
  for (const [index, row] of rows.entries()) {
    for (const column of [0, 1, 2, 3, 4, 10, 15, 16, 17, 18, 19]) equal(row[column], ROWS[index][column], `column ${column} of row ${index}`);
    // mysql2 leaves out a fraction of zero.
    equal(row[11]?.replace('.000000', ''), ROWS[index][11]?.replace('.000000', ''), `column 11 of row ${index}`);
    for (const column of [5, 6, 9]) equal(row[column] === null ? null : String(row[column]), ROWS[index][column], `column ${column} of row ${index}`);
  }
}

async function numbers(connection, count, name = 't_numbers') {
  await table(connection, name, 'id INT PRIMARY KEY, v VARCHAR(100)');
  await connection.query(`INSERT INTO ${name} VALUES (1, REPEAT('x', 80))`);
  for (let have = 1; have < count; have *= 2) await connection.query(`INSERT INTO ${name} SELECT id + ${have}, v FROM ${name} WHERE id + ${have} <= ${count}`);
}

// ------------------------------------------------------------------------------------------------------------- cases

const ISOLATION = env('FAMILY') === 'mariadb' ? '@@tx_isolation' : '@@transaction_isolation';

const cases = {
  async connect() {
    const connection = await connect();
    equal(Number(await connection.one('SELECT CONNECTION_ID()')), connection.id());
    const seen = await connection.rows(`SELECT CURRENT_USER(), DATABASE(), @@character_set_client, @@character_set_results, @@collation_connection, @@autocommit, @@sql_mode, @@time_zone, @@version, ${ISOLATION}`);
    await connection.ping();
    await connection.close();
    return [seen, (await error_of(connect({ password: 'wrong' }))).slice(0, 3), (await error_of(connect({ database: 'no_such_schema' }))).slice(0, 3)];
  },

  async types_text() {
    const connection = await connect();
    await write_types(connection, 'query');
    const rows = await connection.rows(`SELECT ${COLUMNS} FROM t_types ORDER BY id`);
    check_types(rows);
    const computed = await connection.rows("SELECT 1/3, 10 DIV 3 AS b, 1e0, NULL, 0x414243, 'a' = 'A', CAST(-1 AS SIGNED), CAST(1 AS UNSIGNED)");
    await connection.close();
    return [rows, computed];
  },

  async types_prepared() {
    const connection = await connect();
    await write_types(connection, 'execute');
    const rows = connection.plain(await connection.execute(`SELECT ${COLUMNS} FROM t_types WHERE id >= ? ORDER BY id`, [0]));
    check_types(rows);
    const echo = connection.plain(await connection.execute("SELECT ? + 1 AS a, CONCAT(?, 'x') AS b, ? IS NULL AS c", [41, 'y', null]));
    await connection.close();
    return [rows, echo];
  },

  async metadata() {
    const connection = await connect();
    await table(connection, 't_types', TYPES);
    const seen = [];
    const text = (field, name) => (typeof field[name] === 'function' ? field[name]() : field[name]);
    for (const sql of [`SELECT ${COLUMNS} FROM t_types`, 'SELECT t.id AS number, COUNT(*) c, MAX(v) FROM t_types AS t GROUP BY t.id', "SELECT 1 AS one, 'ü' AS `ä b`", 'SHOW COLUMNS FROM t_types']) {
      await connection.query(sql);
      seen.push(connection.fields.map((field) => ['name', 'orgName', 'table', 'orgTable', 'schema', 'columnType', 'type', 'typeName', 'columnLength', 'flags', 'decimals', 'scale', 'characterSet'].map((name) => canonical(text(field, name) ?? null))));
    }
    await connection.close();
    return seen;
  },

  async prepared_many() {
    const connection = await connect();
    await table(connection, 't_many', 'id INT PRIMARY KEY, v VARCHAR(40)');
    const statements = [];
    for (let number = 0; number < 300; number += 1) {
      const [statement] = await promised((done) => connection.raw.prepare(`SELECT ? AS a${number}, ${number} AS n`, done));
      statements.push(statement);
    }
    const run = async (number, value) => {
      const [found] = await promised((done) => statements[number].execute([value], done));
      return connection.plain(found)[0];
    };
    for (let number = 0; number < 300; number += 1) equal((await run(number, number)).map(Number), [number, number]);
    for (let number = 299; number > 0; number -= 11) {
      // MySQL keeps the type of the first execution.
      for (const value of [null, ...(env('FAMILY') === 'mariadb' ? ['text'] : []), 5]) {
        const got = await run(number, value);
        equal([got[0] === null ? null : String(got[0]), Number(got[1])], [value === null ? null : String(value), number]);
      }
    }
    await connection.execute('INSERT INTO t_many VALUES (?, ?)', [7, 'v7']);
    const before = connection.plain(await connection.execute('SELECT * FROM t_many WHERE id = ?', [7]));
    await connection.query('ALTER TABLE t_many ADD COLUMN w INT DEFAULT 7');
    const between = connection.plain(await connection.execute('SELECT * FROM t_many WHERE id = ?', [7]));
    await connection.query('ALTER TABLE t_many DROP COLUMN v');
    const after = connection.plain(await connection.execute('SELECT * FROM t_many WHERE id = ?', [7]));
    for (const statement of statements) statement.close();
    equal(Number(await connection.one('SELECT 1')), 1);
    await connection.close();
    return [before, between, after];
  },

  async sql_prepare() {
    const connection = await connect();
    await connection.query("PREPARE twice FROM 'SELECT ? * 2'");
    await connection.query('SET @n = 21');
    const seen = [await connection.rows('EXECUTE twice USING @n')];
    await connection.query("SET @text = CONCAT('SELECT ', 1 + 1, ' AS two')");
    await connection.query('PREPARE other FROM @text');
    seen.push(await connection.rows('EXECUTE other'));
    await connection.query('DEALLOCATE PREPARE twice');
    seen.push(await error_of(connection.query('EXECUTE twice USING @n')));
    await connection.close();
    return seen;
  },

  async cursor_fetch() {
    throw new Skip('the driver has no server-side cursors');
  },

  async unbuffered() {
    const connection = await connect();
    await numbers(connection, 20000);
    let total = 0;
    const stream = mysql2 ? connection.raw.query('SELECT id, v FROM t_numbers ORDER BY id').stream() : connection.raw.queryStream('SELECT id, v FROM t_numbers ORDER BY id');
    for await (const row of stream) {
      total += row.id;
      if (row.id % 5000 === 0) await pause(50);
    }
    equal(total, (20000 * 20001) / 2);
    const last = await connection.one('SELECT MAX(id) FROM t_numbers');
    const left = await connect();
    let got = 0;
    const events = mysql2 ? left.raw.query('SELECT id, v FROM t_numbers ORDER BY id') : left.raw.query('SELECT id, v FROM t_numbers ORDER BY id');
    await new Promise((done) => {
      events.on('error', done);
      events.on(mysql2 ? 'result' : 'data', () => {
        got += 1;
        if (got === 100) {
          left.destroy();
          done();
        }
      });
    });
    await connection.close();
    return [total, last];
  },

  async batch() {
    const connection = await connect();
    await table(connection, 't_batch', 'id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(100), b BLOB');
    const rows = Array.from({ length: 1000 }, (_, n) => [n, n % 10 === 0 ? null : `v${n}`, n % 100 === 0 ? ALL_BYTES : Buffer.alloc(0)]);
    let count;
    if (mysql2) {
      const found = await connection.query('INSERT INTO t_batch (u, v, b) VALUES ?', [rows]);
      count = [found.affectedRows, found.insertId, found.info];
    } else {
      const [found] = await promised((done) => connection.raw.batch('INSERT INTO t_batch (u, v, b) VALUES (?, ?, ?)', rows, done));
      count = [found.affectedRows, Number(found.insertId)];
      await promised((done) => connection.raw.batch('UPDATE t_batch SET v = ? WHERE u = ?', Array.from({ length: 50 }, (_, n) => [`w${n}`, n]), done));
      count.push(await error_of(promised((done) => connection.raw.batch('INSERT INTO t_batch (u, v) VALUES (?, ?)', [[2000, 'a'], [5, 'b'], [2001, 'c']], done))));
      await connection.query('DELETE FROM t_batch WHERE u >= 2000');
    }
    const seen = await connection.rows("SELECT COUNT(*), SUM(v IS NULL), SUM(LENGTH(b)), SUM(v LIKE 'w%'), MIN(id), MAX(u) FROM t_batch");
    await connection.close();
    equal(Number(seen[0][0]), 1000);
    return [count, seen];
  },

  async local_infile() {
    const file = path.join(env('SCRATCH'), `load-${NAME}.csv`);
    fs.writeFileSync(file, Array.from({ length: 20000 }, (_, n) => `${n},value ü ${n} ${'x'.repeat(60)}\n`).join(''));
    const connection = await connect({ local_infile: true });
    await table(connection, 't_load', 'id INT PRIMARY KEY, v VARCHAR(100)');
    const sql = (name) => `LOAD DATA LOCAL INFILE '${name}' INTO TABLE t_load CHARACTER SET utf8mb4 FIELDS TERMINATED BY ','`;
    const load = (name) => (mysql2 ? connection.query({ sql: sql(name), infileStreamFactory: () => fs.createReadStream(name) }) : connection.query(sql(name)));
    const found = await load(file);
    const seen = await connection.rows('SELECT COUNT(*), SUM(id), MAX(v) FROM t_load');
    equal(Number(seen[0][0]), 20000);
    // mysql2 does not catch a stream's error.
    const missing = mysql2 ? null : await error_of(load('/no/such/file'));
    const after = await connection.one('SELECT COUNT(*) FROM t_load');
    await connection.close();
    return [found.affectedRows, seen, missing, after];
  },

  async kill_query() {
    const [connection, killer] = [await connect(), await connect()];
    const killed = async (sql) => {
      const outcome = value_or_error(connection.rows(sql));
      await pause(700);
      await killer.query(`KILL QUERY ${connection.id()}`);
      return outcome;
    };
    const started = Date.now();
    const sleep = await killed('SELECT SLEEP(20)');
    await numbers(connection, 3000, 't_kill');
    const work = await killed('SELECT COUNT(*) FROM t_kill a, t_kill b, t_kill c WHERE a.v <> CONCAT(b.v, c.id)');
    const write = await killed("UPDATE t_kill SET v = IF(SLEEP(20), 'a', 'b') WHERE id = 1");
    if (Date.now() - started > 15000) throw new Error('the statements were not ended in time');
    equal([work[1], write[1], Number(await connection.one('SELECT 1'))], [1317, 1317, 1]);
    const unknown = await error_of(killer.query('KILL QUERY 999999999'));
    await connection.close();
    await killer.close();
    return [sleep, work, write, unknown];
  },

  async kill_connection() {
    const [connection, killer] = [await connect(), await connect()];
    const id = connection.id();
    await killer.query(`KILL ${id}`);
    await pause(300);
    await error_of(connection.query('SELECT 1'));
    const unknown = await error_of(killer.query(`KILL ${id}`));
    await killer.close();
    connection.destroy();
    return [unknown.slice(0, 3), unknown[3].replace(String(id), 'ID')];
  },

  async timeout() {
    const connection = await connect();
    if (mysql2) {
      const ended = await error_of(connection.query({ sql: 'SELECT SLEEP(15)', timeout: 800 }));
      connection.destroy();
      return ended;
    }
    if (env('FAMILY') === 'mysql') throw new Skip('the driver uses max_statement_time, which MySQL lacks');
    const ended = await error_of(connection.query({ sql: 'SELECT COUNT(*) FROM information_schema.COLUMNS a, information_schema.COLUMNS b WHERE SLEEP(0.01)', timeout: 800 }));
    equal(Number(await connection.one('SELECT 1')), 1);
    await connection.close();
    return ended;
  },

  async tls() {
    const connection = await connect({ tls: true });
    equal(await connection.one("SELECT REPEAT('tls', 100000)"), 'tls'.repeat(100000));
    equal(Number(await connection.one('SELECT CONNECTION_ID()')), connection.id());
    await connection.close();
    return true;
  },

  async compression() {
    const connection = await connect({ compress: true });
    const text = 'compressible '.repeat(80000);
    equal(await connection.one('SELECT ?', [text]), text);
    const noise = crypto.randomBytes(1 << 19).toString('hex');
    equal(await connection.one('SELECT ?', [noise]), noise);
    await numbers(connection, 3000);
    const seen = await connection.rows('SELECT COUNT(*), MAX(id) FROM t_numbers');
    await connection.close();
    return seen;
  },

  async change_user() {
    if (mariadb && env('FAMILY') === 'mysql') throw new Skip('the driver refuses it with MySQL servers');
    const connection = await connect();
    await connection.query('SET @a = 5, SESSION group_concat_max_len = 77');
    await connection.query('CREATE TEMPORARY TABLE t_gone (id INT)');
    const change = (user, password, database) => promised((done) => connection.raw.changeUser({ user, password, database }, done));
    await change(env('OTHER_USER'), env('OTHER_PASSWORD'), OTHER_DATABASE);
    const seen = await connection.rows('SELECT CURRENT_USER(), DATABASE(), @a, @@group_concat_max_len, @@character_set_client, @@collation_connection');
    equal(seen[0][2], null);
    const gone = await error_of(connection.query(`SELECT * FROM ${DATABASE}.t_gone`));
    await change(env('USER'), env('PASSWORD'), DATABASE);
    const back = connection.plain(await connection.execute('SELECT CURRENT_USER(), DATABASE()'));
    const refused = await error_of(change(env('OTHER_USER'), 'wrong', OTHER_DATABASE));
    connection.destroy();
    return [seen, gone, back, refused.slice(0, 3)];
  },

  async reset() {
    const connection = await connect();
    const reset = () => promised((done) => connection.raw.reset(done));
    await table(connection, 't_reset', 'id INT PRIMARY KEY');
    if (!connection.raw.reset) {
      await connection.close();
      throw new Skip('the driver has no reset');
    }
    await connection.query("SET @a = 5, SESSION group_concat_max_len = 77, SESSION sql_mode = ''");
    await connection.query('CREATE TEMPORARY TABLE t_gone (id INT)');
    await connection.begin();
    await connection.query('INSERT INTO t_reset VALUES (1)');
    await reset();
    const seen = await connection.rows('SELECT CURRENT_USER(), DATABASE(), @a, @@group_concat_max_len, @@sql_mode, @@autocommit, @@character_set_client');
    equal([seen[0][2], Number(await connection.one('SELECT COUNT(*) FROM t_reset'))], [null, 0]);
    const gone = await error_of(connection.query('SELECT * FROM t_gone'));
    await connection.close();
    return [seen, gone];
  },

  async multi_statements() {
    const connection = await connect({ multi: true });
    await table(connection, 't_multi', 'id INT PRIMARY KEY, v INT');
    const found = await connection.query('INSERT INTO t_multi VALUES (1, 1), (2, 2); SELECT * FROM t_multi ORDER BY id; UPDATE t_multi SET v = 3; SELECT SUM(v) FROM t_multi; SET @x = 4; SELECT @x');
    const failed = await error_of(connection.query('SELECT 1; SELECT * FROM no_such_table; SELECT 3'));
    const after = await connection.rows('SELECT @x, COUNT(*) FROM t_multi');
    await connection.close();
    return [Array.from(found, (part) => (Array.isArray(part) ? Array.from(part) : [part.affectedRows, Number(part.insertId ?? 0)])), failed, after];
  },

  async procedures() {
    const connection = await connect();
    await table(connection, 't_calls', 'n INT');
    await connection.query('DROP PROCEDURE IF EXISTS p_results');
    await connection.query("CREATE PROCEDURE p_results(IN n INT) BEGIN SELECT n AS first; SELECT n + 1 AS second, 'text' AS t; INSERT INTO t_calls VALUES (n); SELECT COUNT(*) FROM t_calls; END");
    const shape = (found) => Array.from(found, (part) => (Array.isArray(part) ? Array.from(part) : 'end'));
    const text = shape(await connection.query('CALL p_results(?)', [5]));
    const prepared = shape(await connection.execute('CALL p_results(?)', [6]));
    const again = shape(await connection.execute('CALL p_results(?)', [7]));
    await connection.query('DROP PROCEDURE IF EXISTS p_fails');
    await connection.query("CREATE PROCEDURE p_fails() BEGIN SELECT 1; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'mine', MYSQL_ERRNO = 5001; END");
    const failed = await error_of(connection.query('CALL p_fails()'));
    const after = await connection.one('SELECT COUNT(*) FROM t_calls');
    await connection.close();
    return [text, prepared, again, failed, after];
  },

  async out_params() {
    const connection = await connect();
    await connection.query('DROP PROCEDURE IF EXISTS p_out');
    await connection.query("CREATE PROCEDURE p_out(IN a INT, OUT b INT, INOUT c VARCHAR(20)) BEGIN SET b = a * 2; SET c = CONCAT(c, '!'); END");
    await connection.query("SET @c = 'x'");
    await connection.query('CALL p_out(4, @b, @c)');
    const own = await connection.rows('SELECT @b, @c');
    // By the binary protocol they come as a result of their own.
    const prepared = mysql2 ? null : await value_or_error(connection.execute('CALL p_out(?, ?, ?)', [21, null, 'hey']).then((found) => Array.from(found, (part) => (Array.isArray(part) ? Array.from(part) : 'end'))));
    await connection.close();
    equal(own.map((row) => row.map(String)), [['8', 'x!']]);
    return [own, prepared];
  },

  large_17mb: () => large(17 << 20),
  large_40mb: () => large(40 << 20),

  async charset() {
    const connection = await connect();
    await table(connection, 't_chars', 'id INT PRIMARY KEY, u VARCHAR(50), l VARCHAR(50) CHARACTER SET latin1, b VARBINARY(50)');
    await connection.query('INSERT INTO t_chars VALUES (1, ?, ?, ?)', ['ü🦀漢字', 'äöüÿ', Buffer.from([255, 0, 128])]);
    const seen = await connection.rows('SELECT u, l, b, HEX(u), HEX(l), HEX(b) FROM t_chars WHERE u = ?', ['ü🦀漢字']);
    equal([seen[0][3], seen[0][4]], ['C3BCF09FA680E6BCA2E5AD97', 'E4F6FCFF']);
    await connection.close();
    const latin = await connect(mysql2 ? { charset: 'LATIN1_SWEDISH_CI' } : { collation: 'LATIN1_SWEDISH_CI' });
    await latin.query('INSERT INTO t_chars VALUES (2, ?, ?, ?)', ['äöü', 'ÄÖÜ', Buffer.from([0xe4])]);
    const narrow = await latin.rows('SELECT u, l, HEX(u), HEX(l), @@character_set_client, @@character_set_results, @@collation_connection FROM t_chars WHERE id = 2');
    await latin.close();
    return [seen, narrow];
  },

  async transactions() {
    const [connection, other] = [await connect(), await connect()];
    await table(connection, 't_trx', 'id INT PRIMARY KEY, v INT');
    const count = async (which) => Number(await which.one('SELECT COUNT(*) FROM t_trx'));
    const seen = [];
    await connection.begin();
    await connection.query('INSERT INTO t_trx VALUES (1, 1)');
    seen.push(await count(connection), await count(other));
    await connection.rollback();
    seen.push(await count(connection));
    await connection.begin();
    await connection.execute('INSERT INTO t_trx VALUES (?, 2)', [2]);
    await connection.query('SAVEPOINT a');
    await connection.execute('INSERT INTO t_trx VALUES (?, 3)', [3]);
    await connection.query('ROLLBACK TO SAVEPOINT a');
    await connection.query('INSERT INTO t_trx VALUES (4, 4)');
    await connection.commit();
    seen.push(await connection.rows('SELECT id FROM t_trx ORDER BY id'));
    seen.push(await error_of(connection.query('INSERT INTO t_trx VALUES (2, 2)')));
    equal(seen.slice(0, 4), [1, 0, 0, [[2], [4]]]);
    await connection.close();
    await other.close();
    return seen;
  },

  async isolation() {
    const connection = await connect();
    await table(connection, 't_iso', 'id INT PRIMARY KEY, v INT');
    await connection.query('INSERT INTO t_iso VALUES (1, 1)');
    const seen = [];
    for (const level of ['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE']) {
      await connection.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level}`);
      seen.push(await connection.one(`SELECT ${ISOLATION}`));
    }
    await connection.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED');
    await connection.begin();
    seen.push(await connection.one('SELECT v FROM t_iso'));
    await connection.query('UPDATE t_iso SET v = 2');
    await connection.commit();
    await connection.query('START TRANSACTION READ ONLY');
    seen.push(await error_of(connection.query('UPDATE t_iso SET v = 3')));
    await connection.rollback();
    seen.push(await connection.one('SELECT v FROM t_iso'), await connection.one(`SELECT ${ISOLATION}`));
    await connection.close();
    equal(seen[6], 2);
    return seen;
  },

  async autocommit() {
    const [connection, other] = [await connect(), await connect()];
    await table(connection, 't_auto', 'id INT PRIMARY KEY');
    await connection.query('SET autocommit = 0');
    const count = async (more = '') => Number(await connection.one(`SELECT COUNT(*) FROM t_auto ${more}`));
    const seen = [await count()];
    await other.query('INSERT INTO t_auto VALUES (1)');
    seen.push(await count());
    await connection.commit();
    seen.push(await count('FOR UPDATE'));
    await connection.rollback();
    await connection.query('INSERT INTO t_auto VALUES (2)');
    await connection.rollback();
    await connection.query('SET autocommit = 1');
    seen.push(await count());
    equal(seen, [0, 0, 1, 1]);
    await connection.close();
    await other.close();
    return seen;
  },

  async pool() {
    const setup = await connect();
    await table(setup, 't_pool', 'id INT AUTO_INCREMENT PRIMARY KEY, worker INT, n INT');
    const pool = (mysql2 ?? mariadb).createPool({ ...options(), connectionLimit: 4, ...(mariadb ? { resetAfterUse: true, minDelayValidation: 0 } : {}) });
    const failures = [];
    await Promise.all(Array.from({ length: 8 }, async (_, worker) => {
      for (let number = 0; number < 25; number += 1) {
        const [raw] = await promised((done) => pool.getConnection(done));
        const run = async (sql, values) => (await promised((done) => raw.query(sql, values ?? [], done)))[0];
        await run(`SET @mine = ${worker * 1000 + number}`);
        await run('INSERT INTO t_pool (worker, n) VALUES (?, ?)', [worker, number]);
        const mine = Object.values((await run('SELECT @mine'))[0])[0];
        if (Number(mine) !== worker * 1000 + number) failures.push(`worker ${worker} read ${mine}`);
        const have = Object.values((await run('SELECT COUNT(*) FROM t_pool WHERE worker = ?', [worker]))[0])[0];
        if (Number(have) !== number + 1) failures.push(`worker ${worker} sees ${have} of ${number + 1}`);
        await raw.release();
      }
    }));
    equal(failures.slice(0, 5), []);
    const total = Number(await setup.one('SELECT COUNT(*) FROM t_pool FOR UPDATE'));
    equal(total, 200);
    await promised((done) => pool.end(done)).catch(() => {});
    await setup.close();
    return total;
  },

  async session_state() {
    const connection = await connect();
    const seen = [];
    await connection.query("SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES')");
    await connection.query("SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')");
    await connection.query("SET SESSION group_concat_max_len = 2048, time_zone = '+02:00', @a = 1, @b = 'text', @c = NULL, @d = 1.5");
    seen.push(await connection.rows('SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d, @@sql_mode'));
    for (let number = 0; number < 20; number += 1) await connection.one('SELECT 1');
    seen.push(connection.plain(await connection.execute('SELECT @@group_concat_max_len, @@time_zone, @a, @b, @c, @d')));
    await connection.query('SELECT 7, 8 INTO @x, @y');
    seen.push(await connection.rows('SELECT @x + @y'));
    await connection.query(`USE ${OTHER_DATABASE}`);
    seen.push(await connection.one('SELECT DATABASE()'));
    await connection.query(`USE ${DATABASE}`);
    await connection.query('SET SESSION sql_select_limit = 2');
    seen.push((await connection.rows('SELECT 1 AS a UNION SELECT 2 UNION SELECT 3')).length);
    await connection.query('SET SESSION sql_select_limit = DEFAULT');
    seen.push((await connection.rows('SELECT 1 AS a UNION SELECT 2 UNION SELECT 3')).length);
    equal(seen.slice(3), ['OTHER', 2, 3].map((value) => (value === 'OTHER' ? OTHER_DATABASE : value)));
    await connection.close();
    return seen;
  },

  async temp_tables() {
    const [connection, other] = [await connect(), await connect()];
    await connection.query('CREATE TEMPORARY TABLE t_temp (id INT PRIMARY KEY, v VARCHAR(20))');
    await connection.execute('INSERT INTO t_temp VALUES (?, ?), (2, ?)', [1, 'a', 'b']);
    const seen = [await connection.one('SELECT COUNT(*) FROM t_temp'), await error_of(other.query('SELECT * FROM t_temp'))];
    seen.push(connection.plain(await connection.execute('SELECT v FROM t_temp WHERE id = ?', [2])));
    await connection.query('DROP TEMPORARY TABLE t_temp');
    seen.push(await error_of(connection.query('SELECT * FROM t_temp')));
    await connection.close();
    await other.close();
    return seen;
  },

  async own_writes() {
    const connection = await connect();
    await table(connection, 't_own', 'id INT PRIMARY KEY, v INT');
    for (let number = 0; number < 200; number += 1) {
      await connection.execute('INSERT INTO t_own VALUES (?, 0)', [number]);
      equal(Number(await connection.one('SELECT COUNT(*) FROM t_own')), number + 1, 'rows after an insert');
      await connection.query('UPDATE t_own SET v = v + 1 WHERE id = ?', [number]);
      equal(connection.plain(await connection.execute('SELECT v FROM t_own WHERE id = ?', [number])), [[1]], 'a value after its update');
    }
    await connection.close();
    return 200;
  },

  async insert_id() {
    const connection = await connect();
    await table(connection, 't_ids', 'id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v INT');
    const figures = (found) => [found.affectedRows, Number(found.insertId ?? 0), found.changedRows ?? null, found.warningStatus ?? null, found.info ?? null];
    const seen = [figures(await connection.query('INSERT INTO t_ids (u, v) VALUES (1, 1), (2, 2), (3, 3)'))];
    seen.push(await connection.rows('SELECT LAST_INSERT_ID(), 1'), await connection.rows('SELECT LAST_INSERT_ID()'));
    seen.push(figures(await connection.execute('INSERT INTO t_ids (u, v) VALUES (2, 9) ON DUPLICATE KEY UPDATE v = 9')));
    seen.push(await connection.one('SELECT ROW_COUNT()'));
    seen.push(figures(await connection.query('UPDATE t_ids SET v = 9 WHERE u = 2')));
    seen.push(figures(await connection.query('REPLACE INTO t_ids (u, v) VALUES (3, 1)')));
    await connection.query('SELECT SQL_CALC_FOUND_ROWS id FROM t_ids LIMIT 1');
    seen.push(await connection.one('SELECT FOUND_ROWS()'));
    seen.push(figures(await connection.query('UPDATE t_ids SET v = LAST_INSERT_ID(v + 100) WHERE u = 1')), await connection.one('SELECT LAST_INSERT_ID()'));
    equal(seen[1].map((row) => row.map(Number)), [[1, 1]]);
    await connection.close();
    return seen;
  },

  async locks() {
    const [connection, other] = [await connect(), await connect()];
    const name = `lock_${DATABASE}`;
    await table(connection, 't_lock', 'id INT PRIMARY KEY');
    const seen = [await connection.one(`SELECT GET_LOCK('${name}', 5)`), await other.one(`SELECT GET_LOCK('${name}', 0)`), await connection.one(`SELECT RELEASE_LOCK('${name}')`)];
    seen.push(await other.one(`SELECT GET_LOCK('${name}', 5)`));
    await other.close();
    seen.push(await connection.one(`SELECT GET_LOCK('${name}', 5)`));
    await connection.query('LOCK TABLES t_lock WRITE');
    seen.push(await error_of(connection.query('SELECT * FROM t_types')));
    await connection.query('INSERT INTO t_lock VALUES (1)');
    seen.push(await connection.one('SELECT COUNT(*) FROM t_lock'));
    await connection.query('UNLOCK TABLES');
    await connection.close();
    return seen;
  },

  async errors() {
    const connection = await connect();
    await table(connection, 't_err', 'id INT PRIMARY KEY, v VARCHAR(3) NOT NULL, n TINYINT');
    await connection.query("INSERT INTO t_err VALUES (1, 'a', 1)");
    const seen = [];
    for (const sql of ["INSERT INTO t_err VALUES (1, 'b', 1)", 'SELEC 1', 'SELECT * FROM no_such_table', 'SELECT no_such_column FROM t_err', 'INSERT INTO t_err VALUES (2, NULL, 1)',
      "INSERT INTO t_err VALUES (2, 'too long', 1)", "INSERT INTO t_err VALUES (2, 'a', 1000)", 'SELECT no_such_function(1)', 'CALL no_such_procedure()', 'USE no_such_schema',
      'SET no_such_variable = 1', 'CREATE TABLE t_err (id INT)', 'DROP TABLE no_such_table', "SELECT 'ü' + no_such_column"]) {
      seen.push(await error_of(connection.query(sql)));
      if (!sql.startsWith('USE')) seen.push((await error_of(connection.execute(sql))).slice(0, 3));
    }
    seen.push(await error_of(connection.execute("INSERT INTO t_err VALUES (?, 'x', 1)", [1])));
    seen.push(await connection.rows('SELECT COUNT(*), DATABASE() FROM t_err'));
    await connection.close();
    return seen;
  },

  async warnings() {
    const connection = await connect();
    await connection.query("SET sql_mode = ''");
    await table(connection, 't_warn', 'id INT PRIMARY KEY, v VARCHAR(3), n TINYINT');
    const found = await connection.query("INSERT INTO t_warn VALUES (1, 'too long', 1000)");
    const seen = [found.warningStatus, await connection.rows('SHOW WARNINGS')];
    await connection.query('DROP TABLE IF EXISTS no_such_table');
    seen.push(await connection.rows('SHOW WARNINGS'));
    seen.push((await connection.execute('INSERT IGNORE INTO t_warn VALUES (?, ?, 1)', [1, 'a'])).warningStatus, await connection.rows('SHOW WARNINGS'));
    equal(seen[1].length, 2);
    await connection.close();
    return seen;
  },

  async habits() {
    if (mysql2) {
      // The driver keeps up to 16,000 statements open on a connection; a server by default allows 16,382.
      const connection = await connect();
      for (let number = 0; number < 2000; number += 1) {
        equal(connection.plain(await connection.execute(`SELECT ${number} AS n, ? AS v`, [number])).map((row) => row.map(Number)), [[number, number]]);
      }
      equal(connection.plain(await connection.execute('SELECT 3 AS n, ? AS v', [3])).map((row) => row.map(Number)), [[3, 3]]);
      await promised((done) => connection.raw.changeUser({ user: env('OTHER_USER'), password: env('OTHER_PASSWORD'), database: OTHER_DATABASE }, done));
      equal(connection.plain(await connection.execute('SELECT 3 AS n, ? AS v', [3])).map((row) => row.map(Number)), [[3, 3]]);
      // Commands without waiting for replies.
      const together = await Promise.all(Array.from({ length: 50 }, (_, n) => connection.execute('SELECT ? AS n', [n])));
      await connection.close();
      return together.map((found) => Number(found[0].n));
    }
    // The driver writes commands ahead of replies (pipelining).
    const connection = await connect();
    const together = await Promise.all(Array.from({ length: 100 }, (_, n) => (n % 3 === 0 ? value_or_error(connection.query(n % 2 ? `SELECT ${n} AS n` : 'SELECT no_such_column')) : connection.execute('SELECT ? AS n', [n]))));
    await connection.close();
    return together.map((found) => (found[0] === 'value' ? Number(found[1][0].n) : Array.isArray(found) && found[0]?.n === undefined ? found : Number(found[0].n)));
  },
};

async function large(size) {
  const connection = await connect(mysql2 ? {} : { maxAllowedPacket: 120 << 20 });
  const text = '0123456789abcdef'.repeat(size / 16);
  const found = await connection.rows('SELECT LENGTH(?) AS n, ? AS t', [text, text.slice(0, size / 2)]);
  equal([Number(found[0][0]), found[0][1] === text.slice(0, size / 2)], [text.length, true]);
  equal((await connection.one(`SELECT REPEAT('0123456789abcdef', ${size / 16})`)) === text, true);
  const prepared = connection.plain(await connection.execute('SELECT LENGTH(?) AS n', [text]));
  equal(Number(prepared[0][0]), text.length);
  await connection.close();
  return text.length;
}

// ------------------------------------------------------------------------------------------------------------- frame

process.on('uncaughtException', (error) => console.error('uncaught', error));
process.on('unhandledRejection', (error) => console.error('unhandled', error));
const names = [...fs.readFileSync(env('CASES'), 'utf8').matchAll(/^name = "(.*)"$/gm)].map((match) => match[1]);
const only = (env('ONLY') ?? '').split(',').filter(Boolean);
const LIMIT_MS = 60000;
for (const name of names) {
  if (only.length && !only.includes(name)) continue;
  const started = Date.now();
  const line = { case: name };
  let timer;
  try {
    if (!cases[name]) throw new Error("the driver's program has no such case");
    const limit = new Promise((_, failed) => { timer = setTimeout(() => failed(new Error(`no end within ${LIMIT_MS} ms`)), LIMIT_MS); });
    const seen = JSON.stringify(canonical(await Promise.race([cases[name](), limit])));
    Object.assign(line, { status: 'ok', digest: crypto.createHash('sha256').update(seen).digest('hex').slice(0, 16), seen: seen.slice(0, 4000) });
  } catch (error) {
    if (error instanceof Skip) Object.assign(line, { status: 'skip', reason: error.message });
    else Object.assign(line, { status: 'fail', error: `${error.message} ${(error.stack ?? '').split('\n').slice(1, 4).map((text) => text.trim().replace(/.*\//, '')).join(' < ')}`.slice(0, 1500) });
  }
  clearTimeout(timer);
  for (const connection of open_connections) connection.destroy();
  console.log(JSON.stringify({ ...line, ms: Date.now() - started }));
}
process.exit(0);
