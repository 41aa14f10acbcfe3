// Regressions: digests that are new, slower, more frequent, larger or more often wrong since a moment or a mark.

import { useLook } from '../data';
import { micros, moment, number } from '../format';
import { Choice, Empty, Panel, Table, Tag } from '../parts';
import { go, useSetting } from '../route';

const TIMES: [string, string][] = [
    ['-15m', '15 minutes'],
    ['-1h', 'an hour'],
    ['-1d', 'a day'],
];
const HOUR_MS = 3_600_000;
const KINDS: Record<string, 'bad' | 'warn' | 'info'> = { slower: 'bad', errors: 'bad', frequent: 'warn', rows: 'warn', risen: 'warn', new: 'info' };

const times = (factor: number) => ` ${factor < 10 ? factor.toFixed(1) : Math.round(factor)} ×`;

/** What a figure was, and is. */
function both(row: any, shown: (side: any) => string): string {
    return `${row.before ? shown(row.before) : '–'} → ${shown(row.after)}`;
}

/** Whether a replica had another plan before; its steps are the title. */
function planned(plan: any) {
    if (!plan || plan.changed === null) return [];
    const steps = (side: any) => (side ? side.rows.map((row: any[]) => side.columns.map((name: string, at: number) => `${name}=${row[at] ?? 'NULL'}`).join(' ')).join('\n') : '');
    const title = plan.changed ? `before (${plan.before.server}):\n${steps(plan.before)}\nnow (${plan.after.server}):\n${steps(plan.after)}` : steps(plan.after);
    return [
        <span title={title}>
            <Tag kind={plan.changed ? 'bad' : 'dim'}>{plan.changed ? 'plan changed' : 'same plan'}</Tag>
        </span>,
    ];
}

export function Changed() {
    const [chosen, setSince] = useSetting('since', '');
    const marks = useLook('/marks?from=-8d&limit=8', 30_000);
    // A deploy of the last hour is the likely cause of what is wrong now.
    const newest = marks.data?.marks?.[0];
    const since = chosen || (newest && newest.at * 1000 > Date.now() - HOUR_MS ? `mark-${newest.id}` : '-1h');
    const mark = /^mark-(\d+)$/.exec(since)?.[1];
    const path = `/regressions?limit=50&${mark ? `mark=${mark}` : `since=${encodeURIComponent(since)}`}`;
    const isKnown = Boolean(chosen || marks.data || marks.error);
    const { data, error } = useLook(isKnown ? path : null, 60_000);
    // Without a history there is nothing to compare with: docs/guides/history.md.
    if (/no history/.test(error)) return null;
    const options: [string, string][] = [...TIMES, ...(marks.data?.marks ?? []).map((mark: any): [string, string] => [`mark-${mark.id}`, `${mark.text.slice(0, 30)} (${moment(mark.at * 1000)})`])];
    if (!options.some(([value]) => value === since)) options.push([since, since]);
    const rows: any[] = data?.digests ?? [];
    return (
        <Panel title="Changed" note={<Choice label="since" value={since} options={options} onChange={setSince} />}>
            {error && <Empty>{error}</Empty>}
            {data && !rows.length && <Empty>{data.compared_with.length ? `Nothing changed by ${data.factor} × or more since ${moment(data.since.from * 1000)}.` : 'The history has nothing from before that moment.'}</Empty>}
            {rows.length > 0 && (
                <Table
                    name="regressions"
                    rows={rows}
                    id={row => `${row.hash}/${row.user}/${row.schema}`}
                    sort="-extra"
                    path={path}
                    onRow={row => go('digests', row.hash, chosen ? { since: chosen } : {})}
                    columns={[
                        {
                            key: 'changes',
                            head: 'change',
                            cell: row => Object.entries<number | null>(row.changes).map(([kind, factor]) => <Tag kind={KINDS[kind] ?? 'info'}>{kind + (factor === null ? '' : times(factor))}</Tag>).concat(planned(row.plan)),
                            value: row => Object.keys(row.changes).join(' ') + (row.plan?.changed ? ' plan changed' : ''),
                        },
                        { key: 'text', head: 'digest', wide: true, cell: row => <code>{row.text}</code>, value: row => row.text },
                        { key: 'user', head: 'user', cell: row => row.user, value: row => row.user },
                        { key: 'p95', head: 'p95', right: true, cell: row => both(row, side => micros(side.time_us_p95)), value: row => row.after.time_us_p95 },
                        { key: 'rate', head: 'each second', right: true, cell: row => both(row, side => number(side.per_second)), value: row => row.after.per_second },
                        { key: 'rows', head: 'rows each', right: true, cell: row => both(row, side => number(side.rows_each)), value: row => row.after.rows_each },
                        { key: 'extra', head: 'more time', right: true, title: 'server time that it took more than before', cell: row => micros(row.extra_us), value: row => row.extra_us },
                    ]}
                />
            )}
        </Panel>
    );
}
