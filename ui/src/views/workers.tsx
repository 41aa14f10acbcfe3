// Workers: is the load even, and has one too much?

import { useState } from 'preact/hooks';
import { call } from '../api';
import { rate, useLive } from '../data';
import { Chart, type Line } from '../chart';
import { number } from '../format';
import { Act, Bar, Empty, Order, Panel, Table } from '../parts';

/** The share of a core that a worker used between two samples. */
export const busy = (before: any, now: any, worker: number): number | null => {
    const [was, is] = [before?.workers[worker]?.cpu_us, now.workers[worker]?.cpu_us];
    const micros = (now.at_ms - before?.at_ms) * 1000;
    return typeof was === 'number' && typeof is === 'number' && micros > 0 ? Math.max(0, is - was) / micros : null;
};

export function Workers() {
    const { samples, now, before } = useLive();
    const [relieved, setRelieved] = useState<number | null>(null);
    if (!now || samples.length < 2) return <Empty>The first figures come in a moment.</Empty>;
    const rows = now.workers.map((worker: any) => ({
        ...worker,
        busy: busy(before, now, worker.worker),
        rate: rate(before, now, sample => sample.workers[worker.worker]?.requests ?? 0),
        moves: rate(before, now, sample => sample.workers[worker.worker]?.moved ?? 0),
    }));
    const lines: Line[] = now.workers.slice(0, 16).map((worker: any) => ({
        name: `worker ${worker.worker}`,
        points: samples.slice(1).map((sample: any, index: number) => [sample.at_ms, (busy(samples[index], sample, worker.worker) ?? 0) * 100]),
    }));
    const rates: Line[] = now.workers.slice(0, 16).map((worker: any) => ({
        name: `worker ${worker.worker}`,
        points: samples.slice(1).map((sample: any, index: number) => [sample.at_ms, rate(samples[index], sample, sample => sample.workers[worker.worker]?.requests ?? 0)]),
    }));
    return (
        <>
            <div class="charts">
                <Chart title="Busy, in % of a core" shown={value => number(value) + ' %'} lines={lines} />
                <Chart title="Queries a second" shown={number} lines={rates} />
            </div>
            <Panel title="Workers" note="busy: CPU time of the thread; with busy_poll_us that includes active waiting">
                <Table
                    name="workers"
                    rows={rows}
                    sort="worker"
                    id={(row: any) => String(row.worker)}
                    path="/now"
                    columns={[
                        { key: 'worker', head: 'worker', right: true, cell: row => <b>{row.worker}</b>, value: row => row.worker },
                        {
                            key: 'busy',
                            head: 'busy',
                            cell: row => (row.busy === null ? 'unknown' : <><Bar share={row.busy} /> {(100 * row.busy).toFixed(0)} %</>),
                            value: row => row.busy,
                        },
                        { key: 'sessions', head: 'sessions', right: true, cell: row => number(row.sessions), value: row => row.sessions },
                        { key: 'given', head: 'given', right: true, title: 'sessions that moved to other workers', cell: row => number(row.sessions_given), value: row => row.sessions_given },
                        { key: 'taken', head: 'taken', right: true, title: 'sessions that came from other workers', cell: row => number(row.sessions_taken), value: row => row.sessions_taken },
                        { key: 'rate', head: 'queries/s', right: true, cell: row => number(row.rate), value: row => row.rate },
                        { key: 'used', head: 'in use', right: true, title: 'backend connections in use', cell: row => row.used, value: row => row.used },
                        { key: 'idle', head: 'idle', right: true, cell: row => row.idle, value: row => row.idle },
                        { key: 'waiting', head: 'waiting', right: true, cell: row => row.waiting, value: row => row.waiting },
                        { key: 'holding', head: 'held', right: true, cell: row => row.holding, value: row => row.holding },
                        { key: 'moved', head: 'moved', right: true, title: 'backend connections that came from other workers, or went there', cell: row => number(row.moved), value: row => row.moved },
                        { key: 'moves', head: 'moves/s', right: true, cell: row => number(row.moves), value: row => row.moves },
                        { key: 'digests', head: 'digests', right: true, cell: row => number(row.digests), value: row => row.digests },
                        {
                            key: 'acts',
                            head: '',
                            cell: row => (
                                <Act role="operate" id={`relieve-${row.worker}`} onClick={() => setRelieved(row.worker)}>
                                    move sessions …
                                </Act>
                            ),
                        },
                    ]}
                />
            </Panel>
            {relieved !== null && <Relieve key={relieved} worker={relieved} onClose={() => setRelieved(null)} />}
        </>
    );
}

/** Sessions move to another worker, after a look at which that is. */
function Relieve(props: { worker: number; onClose: () => void }) {
    const path = `/workers/${props.worker}/relieve`;
    const [look] = useState(() => async () => {
        const plan = await call('PUT', path, { dry_run: true });
        return `${(100 * plan.share).toFixed(0)} % of its ${plan.of === 'load' ? 'load' : 'sessions'} would move to worker ${plan.to}.`;
    });
    return (
        <Order
            title={`Move sessions of worker ${props.worker}`}
            verb="move"
            look={look}
            act={async () => {
                const page = await call('PUT', path, {});
                return `${page.moved} of ${page.chosen} sessions moved to worker ${page.to}.`;
            }}
            onClose={props.onClose}
        />
    );
}
