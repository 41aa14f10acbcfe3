// Errors: by code, by digest, and the last ones.

import { rate, useLive, useLook } from '../data';
import { count, moment, number, share } from '../format';
import { Empty, Figure, Filter, Panel, Table, Trouble, matches } from '../parts';
import { go, link, useSetting } from '../route';

/** The codes that are met most, in words. */
const NAMES: Record<string, string> = {
    1040: 'too many connections', 1044: 'no right to the schema', 1045: 'access denied', 1046: 'no schema chosen', 1048: 'a column is not null', 1049: 'unknown schema',
    1054: 'unknown column', 1062: 'duplicate entry', 1064: 'syntax', 1065: 'empty statement', 1142: 'no right to the table', 1146: 'unknown table', 1158: 'network error',
    1205: 'lock wait timeout', 1213: 'deadlock', 1226: 'limit of the user', 1227: 'no right', 1264: 'out of range', 1290: 'option forbids it', 1305: 'unknown routine',
    1317: 'interrupted (killed)', 1364: 'no default', 1365: 'division by zero', 1366: 'wrong value', 1406: 'data too long', 1451: 'foreign key: row is referenced',
    1452: 'foreign key: no such row', 1644: 'refused by a rule or a SIGNAL', 1792: 'transaction is read only', 1836: 'server is read only', 1969: 'statement timeout',
    2013: 'connection lost', 3024: 'statement timeout', 3100: 'commit failed',
};

/** Errors of a server in a second, between two samples. */
const errorsEach = (before: any, now: any, row: any) =>
    rate(before, now, sample => sample.servers.find((one: any) => one.cluster === row.cluster && one.server === row.server)?.errors ?? 0);

export function Errors() {
    const [filter, setFilter] = useSetting('f');
    const digests = useLook('/digests?order=errors&limit=500', 5_000);
    const events = useLook('/events/tail?limit=100&where=' + encodeURIComponent('error.code>0'), 3_000);
    const logins = useLook('/events/tail?limit=50&where=' + encodeURIComponent('kind=login and ok=false'), 5_000);
    const { now, before } = useLive();
    const of = (digests.data?.digests ?? []).filter((row: any) => row.errors > 0);
    const rows = of.flatMap((row: any) => {
        const coded = Object.entries<number>(row.errors_by_code);
        const known = coded.reduce((sum, [, times]) => sum + times, 0);
        const list: [string, number][] = known < row.errors ? [...coded, ['other', row.errors - known]] : coded;
        return list.map(([code, times]) => ({ ...row, code, times }));
    });
    const codes = new Map<string, { code: string; times: number; digests: number }>();
    for (const row of rows) {
        const sum = codes.get(row.code) ?? { code: row.code, times: 0, digests: 0 };
        codes.set(row.code, { ...sum, times: sum.times + row.times, digests: sum.digests + 1 });
    }
    const all = [...codes.values()].reduce((sum, one) => sum + one.times, 0);
    const refused = Object.entries<number>(now?.refused_clients ?? {});
    return (
        <>
            <div class="bar-of-tools">
                <Filter value={filter} hint="code, text, user" onChange={setFilter} />
            </div>
            <Trouble error={digests.error || events.error} />
            {now && (
                <div class="figures">
                    <Figure name="errors of servers" value={number(now.servers.reduce((sum: number, one: any) => sum + one.errors, 0))} note="since the start" />
                    <Figure name="errors of Sqluice" value={number(now.own_errors)} note="refused, timed out, no server" />
                    <Figure name="failed logins" value={number(now.login_failures)} bad={now.login_failures > 0} note={`${count(now.logins)} went well`} />
                    <Figure name="refused clients" value={number(refused.reduce((sum, [, times]) => sum + times, 0))} note={refused.map(([why, times]) => `${why}: ${times}`).join(', ')} />
                    <Figure name="waits in vain" value={number(now.waits.wait_timeouts + now.waits.hold_timeouts)} note="for a connection, or held" />
                    <Figure name="writes in doubt" value={number(now.in_doubt)} bad={now.in_doubt > 0} note="a lost COMMIT" />
                </div>
            )}
            <div class="columns">
                <Panel title="By code">
                    <Table
                        name="codes"
                        rows={[...codes.values()].filter(row => matches(filter, row.code, NAMES[row.code]))}
                        sort="-times"
                        id={row => row.code}
                        path="/digests?order=errors&limit=500"
                        empty={digests.data ? 'No error is counted.' : ''}
                        onRow={row => setFilter(row.code)}
                        columns={[
                            { key: 'code', head: 'code', right: true, cell: row => <b>{row.code}</b>, value: row => row.code },
                            { key: 'name', head: 'meaning', cell: row => NAMES[row.code] ?? '', value: row => NAMES[row.code] ?? '' },
                            { key: 'times', head: 'times', right: true, cell: row => number(row.times), value: row => row.times },
                            { key: 'share', head: 'share', right: true, cell: row => share(row.times, all), value: row => row.times },
                            { key: 'digests', head: 'digests', right: true, cell: row => row.digests, value: row => row.digests },
                        ]}
                    />
                </Panel>
                <Panel title="Failed logins" note="the last ones">
                    <ol class="lines">
                        {[...(logins.data?.events ?? [])].reverse().slice(0, 15).map((event: any) => (
                            <li key={event.seq}>
                                <time>{moment(Date.parse(event.ts))}</time> {event.user} from {event.client}: {event.reason}
                            </li>
                        ))}
                        {logins.data && !logins.data.events.length && <li>None is remembered.</li>}
                    </ol>
                </Panel>
            </div>
            {now && (
                <Panel title="By server" note="since the start; and of the last seconds">
                    <Table
                        name="server-errors"
                        rows={now.servers}
                        sort="-errors"
                        id={row => `${row.cluster}/${row.server}`}
                        path="/now"
                        empty="No server has run a statement."
                        columns={[
                            { key: 'server', head: 'server', cell: row => <b>{row.server}</b>, value: row => row.server },
                            { key: 'cluster', head: 'cluster', cell: row => row.cluster, value: row => row.cluster },
                            { key: 'errors', head: 'errors', right: true, cell: row => number(row.errors), value: row => row.errors },
                            { key: 'rate', head: 'errors/s', right: true, cell: row => number(errorsEach(before, now, row)), value: row => errorsEach(before, now, row) },
                            { key: 'share', head: 'of its statements', right: true, cell: row => share(row.errors, row.reads + row.writes), value: row => row.errors / Math.max(1, row.reads + row.writes) },
                        ]}
                    />
                </Panel>
            )}
            <Panel title="By digest">
                <Table
                    name="errors"
                    rows={rows.filter((row: any) => matches(filter, row.code, row.text, row.user, row.schema))}
                    sort="-times"
                    id={row => `${row.hash}/${row.user}/${row.schema}/${row.code}`}
                    path="/digests?order=errors&limit=500"
                    empty={digests.data ? 'No error is counted for a digest.' : ''}
                    onRow={row => go('digests', row.hash)}
                    columns={[
                        { key: 'code', head: 'code', right: true, cell: row => <b title={NAMES[row.code]}>{row.code}</b>, value: row => row.code },
                        { key: 'times', head: 'times', right: true, cell: row => number(row.times), value: row => row.times },
                        { key: 'share', head: 'of its statements', right: true, cell: row => share(row.times, row.statements), value: row => row.times / Math.max(1, row.statements) },
                        { key: 'text', head: 'digest', wide: true, cell: row => <code>{row.text}</code>, value: row => row.text },
                        { key: 'user', head: 'user', cell: row => row.user, value: row => row.user },
                        { key: 'schema', head: 'schema', cell: row => row.schema, value: row => row.schema },
                        { key: 'last', head: 'seen last', right: true, cell: row => moment(row.last_seen_ms), value: row => row.last_seen_ms },
                    ]}
                />
            </Panel>
            <Panel title="The last failed queries" note={<a href={link('log', '', { where: 'error.code>0' })}>in the log</a>}>
                <ol class="lines">
                    {[...(events.data?.events ?? [])]
                        .reverse()
                        .filter((event: any) => matches(filter, String(event.error?.code), event.form, event.user))
                        .slice(0, 50)
                        .map((event: any) => (
                            <li key={event.seq}>
                                <time>{moment(Date.parse(event.ts))}</time> <b>{event.error.code}</b> {NAMES[event.error.code] ?? ''} {event.user} from {event.client} {event.server ? `at ${event.server}` : ''}{' '}
                                <code>{event.form}</code>
                            </li>
                        ))}
                </ol>
                {events.data && !events.data.events.length && <Empty>No failed query is among the last events. [events] queries = "errors" makes events of them.</Empty>}
            </Panel>
        </>
    );
}
