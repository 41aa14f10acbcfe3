// Digests: which statements take the time, who sends them, and what can be done about one.

import { useMemo, useState } from 'preact/hooks';
import { call, query } from '../api';
import { Quadrant } from '../chart';
import { useLook, usePast } from '../data';
import { bytes, count, many, micros, moment, number, share } from '../format';
import { Act, Choice, Code, Empty, Figure, Filter, Order, Panel, Table, Tag, Trouble, matches } from '../parts';
import { go, link, usePlace, useSetting } from '../route';
import { Changed } from './changed';
import { Plans } from './plan';

const LOOK_MS = 5_000;
const LIMIT = 500;
const key = (row: any) => `${row.hash}/${row.user}/${row.schema}`;

/** The growth of each digest since an older answer. */
function grown(now: any, past: any): any[] {
    if (!past || past === now) return now.digests;
    const before = new Map<string, any>((past.digests).map((row: any) => [key(row), row]));
    return now.digests.flatMap((row: any) => {
        const was = before.get(key(row));
        // The counts were begun anew in between, or nothing happened.
        if (!was) return [{ ...row, is_new: true }];
        if (was.statements > row.statements) return [row];
        if (was.statements === row.statements) return [];
        const fields = ['statements', 'errors', 'rows_sent', 'rows_affected', 'on_primary', 'on_replicas', 'pipelined', 'reply_bytes', 'wait_us', 'time_us', 'server_us', 'send_us'];
        return [{ ...row, ...Object.fromEntries(fields.map(field => [field, row[field] - was[field]])) }];
    });
}

export function Digests() {
    const here = usePlace();
    const [filter, setFilter] = useSetting('f');
    const [window, setWindow] = useSetting('of', 'start');
    const [cluster, setCluster] = useSetting('cluster');
    const path = `/digests${query({ cluster, limit: LIMIT })}`;
    const { data, error, again } = useLook(path, LOOK_MS);
    const past = usePast(data, 60_000, path);
    const names: string[] = (useLook('/clusters').data?.clusters ?? []).map((cluster: any) => cluster.name);
    const several = names.length > 1;
    const candidates = useLook('/cache/candidates?limit=200', 15_000);
    const [anew, setAnew] = useState(false);
    const rows: any[] = useMemo(() => {
        if (!data) return [];
        const rows = window === 'minute' ? grown(data, past) : data.digests;
        return rows.filter((row: any) => matches(filter, row.text, row.user, row.schema, row.hash, ...row.clusters));
    }, [data, past, window, filter]);
    const cacheable = new Map<string, any>((candidates.data?.candidates ?? []).map((row: any) => [key(row), row]));
    const all = rows.reduce((sum, row) => sum + row.time_us, 0);
    const chosen = data?.digests.filter((row: any) => row.hash === here.rest);
    return (
        <>
            <div class="bar-of-tools">
                <Filter value={filter} hint="text, user, schema, cluster or hash" onChange={setFilter} />
                <Choice label="of" value={window} options={[['start', 'all time'], ['minute', 'the last minute']]} onChange={setWindow} />
                {(several || cluster) && <Choice label="cluster" value={cluster} options={[['', 'all'], ...(cluster && !names.includes(cluster) ? [cluster] : []), ...names]} onChange={setCluster} />}
                <Act role="admin" onClick={() => setAnew(true)}>
                    count anew
                </Act>
            </div>
            <Trouble error={error} />
            {here.rest && (chosen?.length ? <One rows={chosen} cluster={cluster} several={several} candidate={cacheable.get(key(chosen[0]))} /> : data && <Uncounted hash={here.rest} />)}
            {!here.rest && <Changed />}
            {data && !rows.length && <Empty>{data.entries ? 'No digest fits.' : 'No digest is counted. Set digests_max in [proxy], for example 5000.'}</Empty>}
            {rows.length > 0 && (
                <>
                    <Panel title="Time against repetition" note="size: all time; a ring: worth a cache rule">
                        <div class="wideview"><Quadrant
                            bubbles={rows.slice(0, 200).map(row => ({
                                id: row.hash,
                                x: row.statements,
                                y: row.time_us / Math.max(1, row.statements),
                                size: row.time_us,
                                kind: cacheable.has(key(row)) ? 'candidate' : row.errors > 0 ? 'wrong' : '',
                                text: `${row.text}\n${count(row.statements)} statements, ${micros(row.time_us / Math.max(1, row.statements))} each, ${micros(row.time_us)} in all`,
                            }))}
                            xName="statements"
                            yName="time of each"
                            xShown={number}
                            yShown={micros}
                            fields={['often and fast', 'often and slow', 'seldom and slow', 'seldom and fast']}
                            chosen={here.rest}
                            onChoose={hash => go('digests', hash, Object.fromEntries(here.settings))}
                        /></div>
                    </Panel>
                    <Table
                        name="digests"
                        rows={rows}
                        id={key}
                        sort="-time"
                        path={path}
                        onRow={row => go('digests', row.hash, Object.fromEntries(here.settings))}
                        columns={[
                            {
                                key: 'text',
                                head: 'digest',
                                wide: true,
                                cell: row => (
                                    <>
                                        {row.is_new && <Tag kind="info">new</Tag>} {cacheable.has(key(row)) && <Tag kind="good">cache?</Tag>} <code>{row.text}</code>
                                    </>
                                ),
                                value: row => row.text,
                            },
                            { key: 'user', head: 'user', roomy: true, cell: row => row.user, value: row => row.user },
                            { key: 'schema', head: 'schema', extra: true, cell: row => row.schema, value: row => row.schema },
                            ...(several ? [{ key: 'clusters', head: 'clusters', roomy: true, cell: (row: any) => row.clusters.join(', '), value: (row: any) => row.clusters.join(', ') }] : []),
                            { key: 'statements', head: 'statements', right: true, cell: row => number(row.statements), value: row => row.statements },
                            { key: 'time', head: 'time', right: true, cell: row => micros(row.time_us), value: row => row.time_us },
                            { key: 'share', head: 'share', right: true, cell: row => share(row.time_us, all), value: row => row.time_us / Math.max(1, all) },
                            { key: 'each', head: 'each', right: true, cell: row => micros(row.time_us / Math.max(1, row.statements)), value: row => row.time_us / Math.max(1, row.statements) },
                            { key: 'wait', head: 'wait', roomy: true, right: true, title: 'for a server or a connection, before each', cell: row => micros(row.wait_us / Math.max(1, row.statements)), value: row => row.wait_us / Math.max(1, row.statements) },
                            { key: 'p95', head: 'p95', right: true, title: 'since the start', cell: row => micros(row.time_us_p95), value: row => row.time_us_p95 },
                            { key: 'rows', head: 'rows each', roomy: true, right: true, cell: row => number((row.rows_sent + row.rows_affected) / Math.max(1, row.statements)), value: row => (row.rows_sent + row.rows_affected) / Math.max(1, row.statements) },
                            { key: 'errors', head: 'errors', right: true, cell: row => (row.errors ? <Tag kind="bad">{number(row.errors)}</Tag> : 0), value: row => row.errors },
                            { key: 'replicas', head: 'on replicas', right: true, extra: true, cell: row => share(row.on_replicas, row.on_primary + row.on_replicas), value: row => row.on_replicas / Math.max(1, row.on_primary + row.on_replicas) },
                            { key: 'pipelined', head: 'pipelined', right: true, extra: true, title: 'shared a connection with reads of other sessions', cell: row => share(row.pipelined, row.on_primary + row.on_replicas), value: row => row.pipelined / Math.max(1, row.on_primary + row.on_replicas) },
                            { key: 'first', head: 'first seen', roomy: true, right: true, cell: row => moment(row.first_seen_ms), value: row => row.first_seen_ms },
                        ]}
                    />
                    {data.others?.statements > 0 && <Empty>{count(data.others.statements)} statements more are counted together, beyond digests_max: {micros(data.others.time_us)}.</Empty>}
                </>
            )}
            {anew && (
                <Order
                    title="Count digests anew?"
                    verb="count anew"
                    danger
                    act={async () => {
                        const done = await call('DELETE', '/digests');
                        again();
                        return `${done.forgotten} digests were forgotten.`;
                    }}
                    onClose={() => setAnew(false)}
                >
                    <p>All workers forget what they counted. The history keeps its own.</p>
                </Order>
            )}
        </>
    );
}

/** One digest, with all its users and schemas, of one cluster or of all. */
function One(props: { rows: any[]; cluster: string; several: boolean; candidate: any }) {
    const { rows } = props;
    const row = rows[0];
    const sum = (field: string) => rows.reduce((sum, row) => sum + row[field], 0);
    const where = `digest=${row.hash}${props.cluster && ` and cluster=${props.cluster}`}`;
    const clusters = [...new Set<string>(rows.flatMap(row => row.clusters))];
    const sessions = useLook(`/sessions${query({ where: `${where} and ms>=0`, limit: 50 })}`, 3_000);
    const senders = new Map<string, number>();
    for (const session of sessions.data?.sessions ?? []) {
        const name = `${session.user ?? '?'} from ${String(session.client).replace(/:\d+$/, '')}${session.program ? `, ${session.program}` : ''}`;
        senders.set(name, (senders.get(name) ?? 0) + 1);
    }
    const codes = new Map<string, number>();
    for (const one of rows) for (const [code, times] of Object.entries<number>(one.errors_by_code)) codes.set(code, (codes.get(code) ?? 0) + times);
    const [kill, setKill] = useState('');
    return (
        <Panel class="one" title="Digest" note={<a href={link('digests', '', props.cluster ? { cluster: props.cluster } : {})}>close</a>}>
            <Code text={row.text} />
            <div class="figures">
                <Figure name="statements" value={number(sum('statements'))} note={`first ${moment(row.first_seen_ms)}`} />
                <Figure name="time" value={micros(sum('time_us'))} note={`${micros(sum('time_us') / Math.max(1, sum('statements')))} each`} />
                <Figure name="p50" value={micros(row.time_us_p50)} note={`p95 ${micros(row.time_us_p95)}`} />
                <Figure name="p99" value={micros(row.time_us_p99)} note={`most ${micros(row.time_us_max)}`} />
                <Figure name="waited before" value={micros(sum('wait_us'))} note="for a server or a connection" />
                <Figure name="server" value={micros(sum('server_us'))} note={`then ${micros(sum('send_us'))} sending`} />
                <Figure name="rows sent" value={number(sum('rows_sent'))} note={`${number(sum('rows_affected'))} changed, ${bytes(sum('reply_bytes'))}`} />
                <Figure name="errors" value={number(sum('errors'))} bad={sum('errors') > 0} note={[...codes].map(([code, times]) => `${code}: ${times}`).join(', ')} />
            </div>
            <p>
                Hash <code>{row.hash}</code>. Users and schemas: {rows.map(row => `${row.user} in ${row.schema || '–'}`).join('; ')}.{' '}
                {props.several && `${clusters.length > 1 ? 'Clusters' : 'Cluster'}: ${clusters.join(', ')}${props.cluster && ', and the figures are of this one'}. `}
                {share(sum('on_replicas'), sum('on_primary') + sum('on_replicas'))} ran on replicas,{' '}
                {share(sum('pipelined'), sum('on_primary') + sum('on_replicas'))} shared a connection with other sessions.{' '}
                {senders.size > 0 && <>Sessions that ran it last: {[...senders].map(([name, times]) => `${times} × ${name}`).join('; ')}.</>}
            </p>
            <p class="acts">
                <a class="button" href={link('sessions', '', { where })}>
                    its sessions
                </a>
                <a class="button" href={link('log', '', { where })}>
                    its events
                </a>
                <Act role="operate" danger onClick={() => setKill('query')} id="kill-digest">
                    kill what runs it
                </Act>
                <Act role="operate" danger onClick={() => setKill('session')}>
                    kill its sessions
                </Act>
            </p>
            <Plans hash={row.hash} cluster={props.cluster} key={`${row.hash} ${props.cluster}`} />
            <RuleText row={row} candidate={props.candidate} />
            {kill && <KillAll where={kill === 'query' ? `${where} and state=running` : where} what={kill} onClose={() => setKill('')} />}
        </Panel>
    );
}

/** A digest that is not counted: its first statement still runs, or the counts were begun anew. */
function Uncounted(props: { hash: string }) {
    const where = `digest=${props.hash}`;
    const { data } = useLook(`/sessions${query({ where, limit: 500 })}`, 2_000);
    const [kill, setKill] = useState(false);
    const sessions: any[] = data?.sessions ?? [];
    const first = sessions.find(session => session.form) ?? sessions[0];
    return (
        <Panel class="one" title="Digest" note={<a href={link('digests')}>close</a>}>
            {first?.form && <Code text={first.form} />}
            <p>
                Digest <code>{props.hash}</code> has no figures: a statement is counted when it ends.{' '}
                {sessions.length > 0 && `${many(sessions.filter(session => session.state === 'running').length, 'session')} now: ${[...new Set(sessions.map(session => `${session.user} from ${String(session.client).replace(/:\d+$/, '')}`))].join('; ')}.`}
            </p>
            <p class="acts">
                <a class="button" href={link('sessions', '', { where })}>
                    its sessions
                </a>
                <Act role="operate" danger onClick={() => setKill(true)} id="kill-digest">
                    kill what runs it
                </Act>
            </p>
            <RuleText row={{ hash: props.hash, user: first?.user ?? '' }} candidate={undefined} />
            {kill && <KillAll where={`${where} and state=running`} what="query" onClose={() => setKill(false)} />}
        </Panel>
    );
}

const quote = (text: string) => JSON.stringify(text);

/** The rule to paste: whether it caches, refuses or routes is a click. */
function RuleText(props: { row: any; candidate: any }) {
    const { row, candidate } = props;
    const [kind, setKind] = useState('');
    const name = (verb: string) => `name = "${verb}-${row.hash}"`;
    const match = `digest = "${row.hash}"`;
    const texts: Record<string, string> = {
        cache: (candidate?.rule ?? `[[rule]]\n${name('cache')}\n${match}\nuser = ${quote(row.user)}\ncache = "advise"\ncache_ttl_ms = 1000\n`).trimEnd(),
        refuse: `[[rule]]\n${name('refuse')}\n${match}\nrefuse = "this statement is stopped; ask the database team"`,
        route: `[[rule]]\n${name('route')}\n${match}\nroute = "replica"`,
    };
    const notes: Record<string, string> = {
        cache: candidate
            ? `A rule would have saved about ${micros(candidate.saved_us)} so far. "advise" only counts; "on" answers.`
            : 'Sqluice has not seen that this digest repeats within its time. "advise" only counts what a rule would save.',
        refuse: 'Clients get an error with this text. It stops the digest at once after a reload.',
        route: 'A read goes to replicas, if a replica has what the session wrote. A rule never sends a write there.',
    };
    return (
        <div class="rule">
            <p class="acts">
                Rule to{' '}
                {['cache', 'refuse', 'route'].map(own => (
                    <button type="button" id={'rule-' + own} class={kind === own ? 'here' : ''} aria-pressed={kind === own} onClick={() => setKind(kind === own ? '' : own)}>
                        {own}
                    </button>
                ))}
            </p>
            {kind && (
                <>
                    <Code id="rule-text" text={texts[kind] ?? ''} />
                    <p class="empty">{notes[kind]} Paste it above other rules, run `sqluice check`, and reload (SIGHUP).</p>
                </>
            )}
        </div>
    );
}

/** Kills all that meets a condition, after a look at it. */
export function KillAll(props: { where: string; what: string; onClose: () => void }) {
    const body = { where: props.where, what: props.what };
    const [look] = useState(() => async () => {
        const page = await call('PUT', '/sessions/kill', { ...body, dry_run: true });
        if (!page.sessions.length) throw new Error('No session meets the condition now.');
        return (
            <>
                <p>
                    {many(page.sessions.length, props.what === 'query' ? 'statement' : 'session')} would end:
                </p>
                <ul>
                    {page.sessions.slice(0, 20).map((session: any) => (
                        <li>
                            {session.id} {session.user} {session.client} {session.state} {session.form ?? ''}
                        </li>
                    ))}
                    {page.sessions.length > 20 && <li>and {page.sessions.length - 20} more</li>}
                </ul>
            </>
        );
    });
    return (
        <Order
            title={props.what === 'query' ? 'Kill statements?' : 'Kill sessions?'}
            verb="kill"
            danger
            look={look}
            act={async () => {
                const page = await call('PUT', '/sessions/kill', body);
                return `${page.killed} ended${page.failed.length ? `; ${page.failed.length} failed: ${page.failed.map((one: any) => one.error).join('; ')}` : ''}.`;
            }}
            onClose={props.onClose}
        >
            <p>
                Where <code>{props.where}</code>
            </p>
        </Order>
    );
}

