// Servers: who follows whom, why a server serves no reads, and moving work away from one.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../api';
import { useLive, useLook } from '../data';
import { micros, millis, moment, number } from '../format';
import { Act, Choice, Empty, Order, Panel, Table, Tag, Trouble, healthKind } from '../parts';
import { serverRows } from './now';

export function Servers() {
    const { data, error, again } = useLook('/clusters', 2_000);
    return (
        <>
            <Trouble error={error} />
            {(data?.clusters ?? []).map((cluster: any) => (
                <Cluster key={cluster.name} cluster={cluster} again={again} />
            ))}
            {data && !data.clusters.length && <Empty>No cluster is watched.</Empty>}
        </>
    );
}

interface Ask {
    action: string;
    server?: string;
}

function Cluster(props: { cluster: any; again: () => void }) {
    const { cluster } = props;
    const { now, before } = useLive();
    const [ask, setAsk] = useState<Ask | null>(null);
    const rates = now && before && now !== before ? serverRows(before, now).filter(row => row.cluster === cluster.name) : [];
    const rows = cluster.servers.map((server: any) => ({ ...server, ...Object.fromEntries(['reads', 'writes', 'p95', 'used', 'idle'].map(key => [key, rates.find(row => row.name === server.name)?.[key]])) }));
    const replicas = cluster.servers.filter((server: any) => server.name !== cluster.primary);
    return (
        <Panel
            title={`Cluster ${cluster.name}`}
            note={`primary ${cluster.primary ?? 'unknown'}, failover ${cluster.failover}, epoch ${cluster.epoch}, view ${cluster.view}${cluster.lease ? `, lease: ${cluster.lease.text}` : ''}`}
        >
            <Topology cluster={cluster} />
            <p class="acts">
                <Act role="admin" id={`switchover-${cluster.name}`} onClick={() => setAsk({ action: 'switchover' })}>
                    move the primary …
                </Act>
                <Act role="admin" onClick={() => setAsk({ action: 'failover' })}>
                    replace a lost primary …
                </Act>
                <Act role="admin" onClick={() => setAsk({ action: 'acknowledge' })}>
                    acknowledge
                </Act>
            </p>
            <Table
                name={`servers-${cluster.name}`}
                rows={rows}
                id={(row: any) => row.name}
                path={`/clusters/${cluster.name}`}
                columns={[
                    { key: 'name', head: 'server', cell: row => <b title={row.address}>{row.name}</b>, value: row => row.name },
                    { key: 'role', head: 'role', cell: row => row.role, value: row => row.role },
                    { key: 'health', head: 'health', cell: row => <Tag kind={healthKind(row.health)}>{row.health}</Tag>, value: row => row.health },
                    { key: 'serves', head: 'reads', cell: row => (row.serves_reads ? <Tag kind="good">serves</Tag> : <Tag kind="warn">none</Tag>), value: row => (row.serves_reads ? 1 : 0) },
                    { key: 'reason', head: 'because', wide: true, cell: row => <span class="text">{row.reason}</span>, value: row => row.reason },
                    { key: 'lag', head: 'lag', right: true, cell: row => (row.lag_ms === null ? '–' : millis(row.lag_ms)), value: row => row.lag_ms },
                    { key: 'reads', head: 'reads/s', right: true, cell: row => number(row.reads), value: row => row.reads },
                    { key: 'writes', head: 'writes/s', right: true, cell: row => number(row.writes), value: row => row.writes },
                    { key: 'p95', head: 'p95', right: true, cell: row => micros(row.p95), value: row => row.p95 },
                    { key: 'used', head: 'in use', right: true, cell: row => number(row.used), value: row => row.used },
                    { key: 'version', head: 'version', cell: row => <Version text={row.version} />, value: row => row.version },
                    { key: 'address', head: 'address', extra: true, cell: row => row.address, value: row => row.address },
                    { key: 'acts', head: '', cell: row => <ServerActs row={row} primary={cluster.primary} ask={action => setAsk({ action, server: row.name })} /> },
                ]}
            />
            {cluster.servers.some((server: any) => server.channels?.length) && <Channels servers={cluster.servers} />}
            <h3>Journal</h3>
            <ol class="lines">
                {[...cluster.journal].reverse().map((line: any) => (
                    <li key={line.number} class={line.kind}>
                        <time>{moment(line.at_ms)}</time> <Tag kind={KINDS[line.kind] ?? 'dim'}>{line.kind}</Tag> {line.server && <b>{line.server} </b>}
                        {line.text}
                    </li>
                ))}
                {!cluster.journal.length && <li>Nothing has been decided.</li>}
            </ol>
            {ask && <Change cluster={cluster.name} ask={ask} replicas={replicas.map((server: any) => server.name)} onClose={() => { setAsk(null); props.again(); }} />}
        </Panel>
    );
}

/** Number and product; all that the server says is in its title. */
function Version(props: { text?: string | null }) {
    const text = String(props.text ?? '–').replace(/^5\.5\.5-/, '');
    const short = /^[\d.]+(-MariaDB|-MySQL|-Percona)?/i.exec(text)?.[0] ?? text;
    return <span title={text}>{short}</span>;
}

export const KINDS: Record<string, 'good' | 'warn' | 'bad' | 'dim' | 'info'> = { decision: 'info', finished: 'good', aborted: 'bad', failed: 'bad', advice: 'warn' };

function ServerActs(props: { row: any; primary: string | null; ask: (action: string) => void }) {
    const { row } = props;
    const isOut = row.health === 'draining' || row.health === 'maintenance';
    return (
        <span class="acts">
            {isOut ? (
                <Act role="operate" onClick={() => props.ask('resume')}>
                    resume
                </Act>
            ) : (
                <>
                    <Act role="operate" id={`drain-${row.name}`} onClick={() => props.ask('drain')}>
                        drain
                    </Act>
                    <Act role="operate" onClick={() => props.ask('maintenance')}>
                        maintenance
                    </Act>
                </>
            )}
            {row.role === 'unknown' && (
                <Act role="admin" onClick={() => props.ask('rejoin')}>
                    rejoin
                </Act>
            )}
        </span>
    );
}

const TITLES: Record<string, string> = {
    switchover: 'Move the primary',
    failover: 'Replace a lost primary',
    acknowledge: 'Acknowledge the failover',
    drain: 'Drain',
    maintenance: 'Maintenance of',
    resume: 'Use again:',
    rejoin: 'Attach as a replica:',
};
const HAS_LOOK = ['switchover', 'failover', 'drain', 'maintenance', 'rejoin'];

function Change(props: { cluster: string; ask: Ask; replicas: string[]; onClose: () => void }) {
    const { action, server } = props.ask;
    const [to, setTo] = useState('');
    const path = server ? `/clusters/${props.cluster}/servers/${server}/${action}` : `/clusters/${props.cluster}/${action}`;
    const body = (dry: boolean) => ({ ...(to ? { to } : {}), ...(dry ? { dry_run: true } : {}) });
    const [looks] = useState(() => new Map<string, () => Promise<ComponentChildren>>());
    if (HAS_LOOK.includes(action) && !looks.has(to)) looks.set(to, async () => <Answer page={await call('PUT', path, body(true))} />);
    const hasTarget = action === 'switchover' || action === 'failover';
    return (
        <Order
            title={`${TITLES[action]} ${server ?? ''}`}
            verb={action}
            danger={action === 'switchover' || action === 'failover' || action === 'rejoin'}
            look={looks.get(to)}
            act={async () => <Answer page={await call('PUT', path, body(false))} />}
            onClose={props.onClose}
        >
            {hasTarget && <Choice label="to" value={to} options={[['', 'the best server'], ...props.replicas.map(name => [name, name] as [string, string])]} onChange={setTo} />}
        </Order>
    );
}

function Answer(props: { page: any }) {
    const { page } = props;
    const list = (title: string, texts: string[] | undefined) =>
        texts?.length ? (
            <>
                <h3>{title}</h3>
                <ul>
                    {texts.map(text => (
                        <li>{text}</li>
                    ))}
                </ul>
            </>
        ) : null;
    return (
        <>
            <p>
                <Tag kind={page.result === 'aborted' ? 'bad' : page.result === 'dry_run' ? 'info' : 'good'}>{page.result.replace('_', ' ')}</Tag>{' '}
                {page.result !== 'dry_run' && (
                    <>
                        primary <b>{page.primary ?? 'unknown'}</b>, after {millis(page.took_ms)}
                    </>
                )}
                {page.connections !== undefined && <> {page.connections} connections are in use now.</>}
            </p>
            {list('Steps', page.steps)}
            {list('Warnings', page.warnings)}
            {list('Other servers', page.others)}
            {list('Times', page.timings?.map((one: any) => `${one.ms} ms ${one.server ?? ''} ${one.step}${one.ok ? '' : ` – failed: ${one.text}`}`))}
        </>
    );
}

function Channels(props: { servers: any[] }) {
    const rows = props.servers.flatMap(server => (server.channels ?? []).map((channel: any) => ({ ...channel, server: server.name, read_only: server.read_only, semi_sync: server.semi_sync, gtid: server.gtid_executed })));
    return (
        <details>
            <summary>Replication channels</summary>
            <Table
                name="channels"
                rows={rows}
                columns={[
                    { key: 'server', head: 'server', cell: row => <b>{row.server}</b>, value: row => row.server },
                    { key: 'source', head: 'follows', cell: row => row.source ?? '–', value: row => row.source },
                    { key: 'receiver', head: 'IO thread', cell: row => String(row.receiver), value: row => String(row.receiver) },
                    { key: 'applier', head: 'SQL thread', cell: row => String(row.applier), value: row => String(row.applier) },
                    { key: 'read_only', head: 'read only', cell: row => String(row.read_only ?? '–'), value: row => String(row.read_only) },
                    { key: 'semi', head: 'semi-sync', cell: row => row.semi_sync ?? '–', value: row => row.semi_sync },
                    { key: 'gtid', head: 'executed', wide: true, cell: row => <code>{row.gtid}</code>, value: row => row.gtid },
                    { key: 'error', head: 'error', wide: true, cell: row => row.error, value: row => row.error },
                ]}
            />
        </details>
    );
}

/** The primary on the left, those that follow on the right. */
function Topology(props: { cluster: any }) {
    const { servers, primary } = props.cluster;
    const first = servers.filter((server: any) => server.name === primary);
    const others = servers.filter((server: any) => server.name !== primary);
    const height = Math.max(1, others.length, first.length) * 54 + 8;
    const middle = height / 2;
    const box = (server: any, x: number, y: number) => (
        <g key={server.name} class={'server ' + server.health}>
            <rect x={x} y={y - 21} width={210} height={42} rx={7} />
            <text x={x + 12} y={y - 3} class="name">
                {server.name}
            </text>
            <text x={x + 12} y={y + 13}>
                {server.role}, {server.health}
                {server.serves_reads ? '' : ', no reads'}
                {server.fenced ? ', fenced' : ''}
            </text>
            <title>{`${server.address}\n${server.reason}`}</title>
        </g>
    );
    return (
        <svg class="topology" viewBox={`0 0 640 ${height}`} role="img" aria-label={`Servers of cluster ${props.cluster.name}`}>
            {first.length > 0 &&
                others.map((server: any, index: number) => {
                    const y = ((index + 0.5) * height) / others.length;
                    return (
                        <g class={'edge ' + server.health}>
                            <path d={`M220 ${middle}C320 ${middle} 320 ${y} 420 ${y}`} />
                            <text x={322} y={(middle + y) / 2 - 5} text-anchor="middle">
                                {server.lag_ms === null ? 'lag unknown' : `lag ${millis(server.lag_ms)}`}
                            </text>
                        </g>
                    );
                })}
            {first.map((server: any) => box(server, 10, middle))}
            {others.map((server: any, index: number) => box(server, 420, ((index + 0.5) * height) / others.length))}
        </svg>
    );
}
