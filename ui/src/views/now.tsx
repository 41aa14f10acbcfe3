// Now: how much, how fast, what waits, and how it was before.

import { useEffect, useState } from 'preact/hooks';
import { LIVE_MS, useLook, quantile, rate, total, useLive } from '../data';
import { query } from '../api';
import { Chart, type Line } from '../chart';
import { bytes, micros, millis, number, share, span } from '../format';
import { Choice, Empty, Figure, Panel, Table, Tag, Trouble, healthKind } from '../parts';
import { link, useSetting } from '../route';
import { busy } from './workers';

const errors = (sample: any) => total(sample.servers, 'errors') + sample.own_errors;

/** The latencies of all servers together. */
function latencies(sample: any): number[] {
    const sum = new Array(sample.latency_bounds_us.length).fill(0);
    for (const server of sample.servers) server.latency.forEach((value: number, index: number) => (sum[index] += value));
    return sum;
}

export function serverRows(before: any, now: any): any[] {
    const rows: any[] = [];
    for (const cluster of now.clusters) {
        for (const server of cluster.servers) {
            const of = (sample: any) => sample?.servers.find((one: any) => one.cluster === cluster.name && one.server === server.name);
            const [was, is] = [of(before), of(now)];
            const seconds = (now.at_ms - before.at_ms) / 1000;
            const grown = (key: string) => (is && seconds > 0 ? Math.max(0, is[key] - (was?.[key] ?? 0)) / seconds : 0);
            rows.push({
                cluster: cluster.name,
                ...server,
                reads: grown('reads'),
                writes: grown('writes'),
                errors: grown('errors'),
                opened: grown('opened'),
                used: is?.used ?? 0,
                idle: is?.idle ?? 0,
                p50: is ? quantile(now.latency_bounds_us, was?.latency, is.latency, 0.5) : null,
                p95: is ? quantile(now.latency_bounds_us, was?.latency, is.latency, 0.95) : null,
            });
        }
    }
    return rows;
}

export function Now() {
    const { samples, now, before, error } = useLive();
    if (!now || samples.length < 2) return error ? <Trouble error={error} /> : <Empty>The first figures come in a moment.</Empty>;
    const of = (pick: (sample: any) => number) => rate(before, now, pick);
    const queries = of(sample => sample.requests);
    const p95 = quantile(now.latency_bounds_us, latencies(before), latencies(now), 0.95);
    const [hits, misses] = [of(sample => sample.cache.hits), of(sample => sample.cache.misses)];
    const [used, idle] = [total(now.servers, 'used'), total(now.servers, 'idle')];
    const wrong = of(errors);
    const timeouts = of(sample => sample.waits.wait_timeouts + sample.waits.hold_timeouts);
    const pins = Object.entries<number>(now.pins);
    const routes = Object.keys(now.routes).map(reason => ({ reason, rate: of(sample => sample.routes[reason] ?? 0) }));
    const rows = serverRows(before, now);
    return (
        <>
            <div class="figures">
                <Figure name="queries/s" value={number(queries)} note={`${number(of(sample => sample.local))} without a server`} />
                <Figure name="errors/s" value={number(wrong)} bad={wrong > 0} note={<a href={link('errors')}>by code</a>} />
                <Figure name="servers' p95" value={micros(p95)} note="of the last seconds" />
                <Figure name="sessions" value={number(now.sessions)} note={`${number(of(sample => sample.logins))} logins/s`} />
                <Figure
                    name="waiting"
                    value={number(now.waits.waiting + now.waits.holding)}
                    bad={now.waits.waiting + now.waits.holding > 0}
                    note={timeouts > 0 ? `${number(timeouts)} in vain/s` : `${now.waits.holding} of them held`}
                />
                <Figure name="connections" value={number(used)} note={`in use, ${idle} idle`} />
                <Figure name="cache" value={share(hits, hits + misses)} note={`${number(hits)} hits/s, ${bytes(now.cache.bytes)}`} />
                <Figure name="running for" value={span((now.at_ms - now.started_ms) / 1000)} note={`version ${now.version}`} />
            </div>
            <div class="charts">
                <Live samples={samples} />
            </div>
            <Running />
            <Panel title="Servers" note={<a href={link('servers')}>more</a>}>
                <Table
                    name="now"
                    rows={rows}
                    id={row => row.cluster + '/' + row.name}
                    sort="cluster"
                    path="/now"
                    columns={[
                        { key: 'cluster', head: 'cluster', roomy: true, cell: row => row.cluster, value: row => row.cluster },
                        { key: 'name', head: 'server', cell: row => <b>{row.name}</b>, value: row => row.name },
                        { key: 'role', head: 'role', cell: row => row.role, value: row => row.role },
                        { key: 'health', head: 'health', cell: row => <Tag kind={healthKind(row.health)}>{row.health}</Tag>, value: row => row.health },
                        { key: 'lag', head: 'lag', right: true, cell: row => (row.lag_ms === null ? '–' : millis(row.lag_ms)), value: row => row.lag_ms },
                        { key: 'reads', head: 'reads/s', right: true, cell: row => number(row.reads), value: row => row.reads },
                        { key: 'writes', head: 'writes/s', right: true, cell: row => number(row.writes), value: row => row.writes },
                        { key: 'errors', head: 'errors/s', right: true, cell: row => number(row.errors), value: row => row.errors },
                        { key: 'p50', head: 'p50', right: true, cell: row => micros(row.p50), value: row => row.p50 },
                        { key: 'p95', head: 'p95', right: true, cell: row => micros(row.p95), value: row => row.p95 },
                        { key: 'used', head: 'in use', right: true, cell: row => row.used, value: row => row.used },
                        { key: 'idle', head: 'idle', roomy: true, right: true, cell: row => row.idle, value: row => row.idle },
                        { key: 'opened', head: 'opened/s', roomy: true, right: true, cell: row => number(row.opened), value: row => row.opened },
                    ]}
                />
            </Panel>
            <div class="columns">
                <Panel title="Why queries went where they went" note="per second">
                    <Table
                        name="routes"
                        rows={routes}
                        path="/now"
                        sort="-rate"
                        empty="No query yet."
                        columns={[
                            { key: 'reason', head: 'reason', cell: row => row.reason, value: row => row.reason },
                            { key: 'rate', head: 'queries/s', right: true, cell: row => number(row.rate), value: row => row.rate },
                        ]}
                    />
                </Panel>
                <Panel title="Why sessions keep their connection" note="now">
                    <Table
                        name="pins"
                        rows={pins.map(([reason, sessions]) => ({ reason, sessions }))}
                        path="/now"
                        sort="-sessions"
                        empty="No session is pinned."
                        columns={[
                            { key: 'reason', head: 'pin', cell: row => <a href={link('sessions', '', { where: `pins~${row.reason}` })}>{row.reason}</a>, value: row => row.reason },
                            { key: 'sessions', head: 'sessions', right: true, cell: row => row.sessions, value: row => row.sessions },
                        ]}
                    />
                </Panel>
            </div>
            <History />
        </>
    );
}

/** Looks that the means of running statements are of: about half a minute. */
const RUNNING_LOOKS = 15;
/** Statements that run for less are the usual traffic, unless there are many. */
const RUNNING_SHOWN = 8;
const BUSY = '/sessions' + query({ where: 'state!=idle and state!=idle_in_transaction and state!=login', order: 'busy', limit: 500, max_age_ms: 1000 });

interface Running {
    digest: string;
    form: string;
    now: number;
    /** So many ran at each look, on the mean. */
    mean: number;
    longest: number;
    waits: number;
    senders: Set<string>;
}

/** Statements that run or wait, by digest: those with the most sessions first. */
function runningOf(looks: any[][]): Running[] {
    const found = new Map<string, Running>();
    looks.forEach((sessions, index) => {
        for (const session of sessions) {
            if (!session.digest) continue;
            const none = { digest: session.digest, form: '', now: 0, mean: 0, longest: 0, waits: 0, senders: new Set<string>() };
            const sum: Running = found.get(session.digest) ?? none;
            sum.mean += 1 / looks.length;
            sum.form = session.form ?? sum.form;
            sum.senders.add(`${session.user ?? '?'} from ${String(session.client).replace(/:\d+$/, '')}${session.program ? `, ${session.program}` : ''}`);
            if (index === looks.length - 1) {
                sum.now += 1;
                sum.waits += session.state === 'running' ? 0 : 1;
                sum.longest = Math.max(sum.longest, session.ms);
            }
            found.set(session.digest, sum);
        }
    });
    return [...found.values()];
}

/** The work of this moment: which digests the busy sessions are at, and whose they are. */
function Running() {
    const { data } = useLook(BUSY, LIVE_MS);
    const [looks, setLooks] = useState<any[][]>([]);
    useEffect(() => {
        if (data) setLooks(looks => [...looks, data.sessions].slice(-RUNNING_LOOKS));
    }, [data]);
    const { now, before } = useLive();
    const mean = (fits: (state: string) => boolean) => looks.reduce((sum, sessions) => sum + sessions.filter(session => fits(session.state)).length, 0) / Math.max(1, looks.length);
    const shares: number[] = now ? now.workers.map((worker: any) => busy(before, now, worker.worker) ?? 0) : [];
    // A statement of a moment has told nobody what it is; several of a kind are of interest all the same.
    const rows = runningOf(looks).filter(row => row.form || row.mean >= 0.3).sort((one, other) => other.mean - one.mean).slice(0, RUNNING_SHOWN);
    return (
        <Panel title="What runs" note="busy sessions by digest; means of half a minute">
            {looks.length > 0 && (
                <p class="empty" id="where-time-goes">
                    {mean(state => state === 'running').toFixed(1)} sessions are at servers, {mean(state => state === 'waits_for_connection' || state === 'waits_for_user_limit').toFixed(1)} wait for a connection,{' '}
                    {mean(state => state === 'waits_for_server').toFixed(1)} for a server. The busiest worker of Sqluice uses {share(Math.max(0, ...shares), 1)} of a core.
                </p>
            )}
            <Table
                name="running"
                rows={rows}
                id={row => row.digest}
                sort="-mean"
                path={BUSY}
                empty={data ? 'No statement runs.' : ''}
                columns={[
                    { key: 'mean', head: 'sessions', right: true, title: 'that were at it on the mean', cell: row => row.mean.toFixed(1), value: row => row.mean },
                    { key: 'now', head: 'now', right: true, cell: row => row.now, value: row => row.now },
                    { key: 'longest', head: 'longest', right: true, cell: row => (row.now ? millis(row.longest) : '–'), value: row => row.longest },
                    {
                        key: 'form',
                        head: 'digest',
                        wide: true,
                        cell: row => (
                            <>
                                {row.waits > 0 && <Tag kind="bad">{row.waits} wait</Tag>}
                                <a href={link('digests', row.digest)}>
                                    <code>{row.form || row.digest}</code>
                                </a>
                            </>
                        ),
                        value: row => row.form,
                    },
                    { key: 'senders', head: 'from', wide: true, cell: row => [...row.senders].slice(0, 3).join('; ') + (row.senders.size > 3 ? `; and ${row.senders.size - 3} more` : ''), value: row => [...row.senders].join('; ') },
                ]}
            />
        </Panel>
    );
}

function Live(props: { samples: any[] }) {
    const { samples } = props;
    const line = (name: string, pick: (sample: any) => number): Line => ({
        name,
        points: samples.slice(1).map((sample, index) => [sample.at_ms, rate(samples[index], sample, pick)]),
    });
    const late = (name: string, q: number): Line => ({
        name,
        points: samples.slice(1).map((sample, index) => [
            sample.at_ms,
            quantile(sample.latency_bounds_us, latencies(samples[index]), latencies(sample), q),
        ]),
    });
    const gauge = (name: string, pick: (sample: any) => number): Line => ({
        name,
        points: samples.slice(1).map(sample => [sample.at_ms, pick(sample)]),
    });
    return (
        <>
            <Chart
                title="Queries a second"
                stacked
                shown={number}
                lines={[
                    line('reads', sample => total(sample.servers, 'reads')),
                    line('writes', sample => total(sample.servers, 'writes')),
                    line('cached', sample => sample.cache.hits),
                    line('local', sample => Math.max(0, sample.local - sample.cache.hits)),
                ]}
            />
            <Chart title="Time of servers" shown={micros} lines={[late('p50', 0.5), late('p95', 0.95), late('p99', 0.99)]} />
            <Chart
                title="Sessions and connections"
                shown={number}
                lines={[
                    gauge('sessions', sample => sample.sessions),
                    gauge('in use', sample => total(sample.servers, 'used')),
                    gauge('waiting', sample => sample.waits.waiting + sample.waits.holding),
                ]}
            />
            <Chart title="Errors a second" shown={number} lines={[line('servers', sample => total(sample.servers, 'errors')), line('Sqluice', sample => sample.own_errors)]} />
        </>
    );
}

const RANGES: [string, string][] = [
    ['-15m', '15 minutes'],
    ['-1h', 'an hour'],
    ['-6h', '6 hours'],
    ['-1d', 'a day'],
    ['-7d', 'a week'],
    ['-30d', '30 days'],
];
const WANTED = [
    'sqluice_requests_total',
    'sqluice_server_reads_total',
    'sqluice_server_writes_total',
    'sqluice_server_errors_total',
    'sqluice_server_latency_seconds_sum',
    'sqluice_server_latency_seconds_count',
    'sqluice_server_lag_seconds',
    'sqluice_sessions',
    'sqluice_pool_waiting_statements',
    'sqluice_held_statements',
    'sqluice_own_errors_total',
    'sqluice_cache_hits_total',
    'sqluice_listener_sessions',
    'sqluice_listener_queries_total',
    'sqluice_listener_received_bytes_total',
    'sqluice_listener_sent_bytes_total',
];

const label = (series: string, key: string) => new RegExp(`${key}="([^"]*)"`).exec(series)?.[1] ?? '';

function History() {
    const [range, setRange] = useSetting('range', '-1h');
    const { data, error } = useLook(`/history?series=${WANTED.join(',')}&from=${range}`, 10_000);
    const marks = useLook(`/marks?from=${range}&limit=100`, 30_000);
    const series: any[] = data?.series ?? [];
    const named = (name: string) => series.filter(one => one.name === name || one.name.startsWith(name + '{'));
    const points = (one: any): Line['points'] => one.points.map(([at, value]: [number, number]) => [at * 1000, value]);
    const sum = (name: string, shown: string, listener?: string): Line => {
        const sums = new Map<number, number>();
        for (const one of named(name).filter(one => listener === undefined || label(one.name, 'listener') === listener)) for (const [at, value] of one.points) sums.set(at * 1000, (sums.get(at * 1000) ?? 0) + value);
        return { name: shown, points: [...sums.entries()].sort((one, other) => one[0] - other[0]) };
    };
    const times = named('sqluice_server_latency_seconds_sum').map((one): Line => {
        const counts = new Map<number, number>(series.find(other => other.name === one.name.replace('_sum', '_count'))?.points ?? []);
        const mean = one.points.map(([at, value]: [number, number]) => [at * 1000, (counts.get(at) ?? 0) > 0 ? (value / (counts.get(at) ?? 1)) * 1e6 : null]);
        return { name: label(one.name, 'server'), points: mean };
    });
    const listeners = [...new Set(named('sqluice_listener_sessions').map(one => label(one.name, 'listener')))];
    const of = (name: string, listener: string, shown = listener) => sum(name, shown, listener);
    const lags = named('sqluice_server_lag_seconds').map((one): Line => ({ name: label(one.name, 'server'), points: points(one) }));
    const bounds = { from: (data?.from ?? 0) * 1000, to: (data?.to ?? 1) * 1000, marks: (marks.data?.marks ?? []).map((mark: any) => ({ at: mark.at * 1000, text: mark.text })) };
    return (
        <Panel
            title="Before"
            note={<Choice label="the last" value={range} options={RANGES} onChange={setRange} />}
        >
            {error && <Empty>{error}</Empty>}
            {data && (
                <div class="charts" id="history">
                    <Chart title="Queries a second" shown={number} lines={[sum('sqluice_requests_total', 'all'), sum('sqluice_server_reads_total', 'reads'), sum('sqluice_server_writes_total', 'writes'), sum('sqluice_cache_hits_total', 'cached')]} {...bounds} />
                    <Chart title="Mean time of servers" shown={micros} lines={times} {...bounds} />
                    <Chart title="Lag" shown={seconds => millis(seconds * 1000)} lines={lags} {...bounds} />
                    <Chart title="Sessions and waits" shown={number} lines={[sum('sqluice_sessions', 'sessions'), sum('sqluice_pool_waiting_statements', 'wait for a connection'), sum('sqluice_held_statements', 'held')]} {...bounds} />
                    <Chart title="Errors a second" shown={number} lines={[sum('sqluice_server_errors_total', 'servers'), sum('sqluice_own_errors_total', 'Sqluice')]} {...bounds} />
                    <Chart title="Queries of listeners a second" shown={number} lines={listeners.map(one => of('sqluice_listener_queries_total', one))} {...bounds} />
                    <Chart title="Sessions of listeners" shown={number} lines={listeners.map(one => of('sqluice_listener_sessions', one))} {...bounds} />
                    <Chart title="Bytes of listeners a second" shown={bytes} lines={listeners.flatMap(one => [of('sqluice_listener_received_bytes_total', one, `${one} in`), of('sqluice_listener_sent_bytes_total', one, `${one} out`)])} {...bounds} />
                </div>
            )}
        </Panel>
    );
}
