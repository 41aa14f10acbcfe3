// Rules: in the order in which they are tried, with their hits.

import { useLook, usePast } from '../data';
import { count, number } from '../format';
import { Empty, Filter, Table, Tag, Trouble, matches } from '../parts';
import { useSetting } from '../route';

export function Rules() {
    const [filter, setFilter] = useSetting('f');
    const { data, error } = useLook('/rules', 3_000);
    const stamped = useStamp(data);
    const past = usePast(stamped, 15_000, '/rules');
    const seconds = stamped && past ? (stamped.at - past.at) / 1000 : 0;
    const before = new Map<string, number>((past?.data.rules ?? []).map((rule: any) => [rule.name, rule.hits]));
    const rows = (data?.rules ?? []).map((rule: any, index: number) => ({ ...rule, order: index + 1, rate: seconds > 0 ? Math.max(0, rule.hits - (before.get(rule.name) ?? 0)) / seconds : 0 }));
    return (
        <>
            <div class="bar-of-tools">
                <Filter value={filter} hint="name, matcher or action" onChange={setFilter} />
            </div>
            <Trouble error={error} />
            {data && <p class="empty">The first rule whose matchers all hold decides. {count(data.searches)} statements were looked up in the rules; the others were known already.</p>}
            {data && !data.rules.length && <Empty>There are no rules. The view of a digest writes one for you.</Empty>}
            {rows.length > 0 && (
                <Table
                    name="rules"
                    rows={rows.filter((row: any) => matches(filter, row.name, row.action, ...row.matchers))}
                    sort="order"
                    id={row => row.name}
                    path="/rules"
                    columns={[
                        { key: 'order', head: '#', right: true, cell: row => row.order, value: row => row.order },
                        { key: 'name', head: 'rule', cell: row => <b>{row.name}</b>, value: row => row.name },
                        { key: 'on', head: '', cell: row => (row.enabled ? <Tag kind="good">on</Tag> : <Tag>off</Tag>), value: row => (row.enabled ? 1 : 0) },
                        { key: 'matchers', head: 'if', wide: true, cell: row => <span class="text">{row.matchers.join(', and ') || 'always'}</span>, value: row => row.matchers.join(', and ') },
                        { key: 'action', head: 'then', wide: true, cell: row => <span class="text">{row.action}</span>, value: row => row.action },
                        { key: 'hits', head: 'hits', right: true, cell: row => number(row.hits), value: row => row.hits },
                        { key: 'rate', head: 'hits/s', right: true, cell: row => number(row.rate), value: row => row.rate },
                    ]}
                />
            )}
        </>
    );
}

const stamps = new WeakMap<object, { at: number; data: any }>();

/** When an answer came. */
function useStamp(data: any): { at: number; data: any } | undefined {
    if (!data) return undefined;
    if (!stamps.has(data)) stamps.set(data, { at: Date.now(), data });
    return stamps.get(data);
}
