// Cache: what it saves, which reads are worth a rule, and wiping it.

import { useState } from 'preact/hooks';
import { call, query } from '../api';
import { useLive, useLook } from '../data';
import { Chart, type Line } from '../chart';
import { bytes, count, micros, number, share } from '../format';
import { Act, Choice, Code, Empty, Figure, Order, Panel, Table, Tag, Trouble } from '../parts';
import { go, useSetting } from '../route';

const reasons = (refused: Record<string, number>) =>
    Object.entries(refused)
        .sort((one, other) => other[1] - one[1])
        .map(([why, times]) => `${why.replace(/_/g, ' ')}: ${number(times)}`)
        .join(', ');

export function Cache() {
    const [ttl, setTtl] = useSetting('ttl', '1000');
    const { data, error, again } = useLook('/cache', 3_000);
    const digests = useLook('/cache/digests?limit=100', 5_000);
    const candidates = useLook(`/cache/candidates?ttl_ms=${ttl}&limit=100`, 5_000);
    const { samples } = useLive();
    const [wipe, setWipe] = useState<Record<string, string> | null>(null);
    const [shown, setShown] = useState('');
    const rules: any[] = data?.rules ?? [];
    const sum = (key: string) => rules.reduce((sum, rule) => sum + rule[key], 0);
    const line = (name: string, key: string): Line => ({
        name,
        points: samples.slice(1).map((sample, index) => [sample.at_ms, Math.max(0, sample.cache[key] - samples[index].cache[key]) / ((sample.at_ms - samples[index].at_ms) / 1000)]),
    });
    return (
        <>
            <Trouble error={error} />
            {data && (
                <div class="figures">
                    <Figure name="time saved" value={micros(sum('saved_us'))} note="of servers, since the start" />
                    <Figure name="hits" value={number(sum('hits'))} note={`${share(sum('hits'), sum('hits') + sum('misses'))} of what was asked`} />
                    <Figure name="misses" value={number(sum('misses'))} note={`${number(sum('kept'))} kept`} />
                    <Figure name="results" value={number(data.answers)} note={`${number(data.evicted)} gave way`} />
                    <Figure name="memory" value={bytes(data.bytes)} note={data.memory_max ? `of ${bytes(data.memory_max)}` : ''} />
                    <Figure name="bytes sent" value={bytes(sum('bytes'))} note="from memory" />
                </div>
            )}
            {rules.length > 0 && (
                <div class="charts">
                    <Chart title="Reads a second" shown={number} lines={[line('hits', 'hits'), line('misses', 'misses')]} />
                    <Chart title="Servers' time saved in a second" shown={micros} lines={[line('saved', 'saved_us')]} />
                </div>
            )}
            <p class="acts">
                <Act role="admin" danger id="wipe" onClick={() => setWipe({})}>
                    wipe the cache …
                </Act>
                {data?.tier && <Tag kind={data.tier.state === 'connected' || data.tier.state === 'ready' ? 'good' : 'warn'}>shared cache at {data.tier.address}: {data.tier.state}</Tag>}
                {Object.entries<any>(data?.follow ?? {}).map(([cluster, one]) => (
                    <Tag kind={one.serves ? 'good' : 'warn'}>
                        {cluster} is followed, {one.delay_ms === null ? 'the stream is lost' : `${one.delay_ms} ms behind`}
                    </Tag>
                ))}
            </p>
            <Panel title="Rules that cache">
                <Table
                    name="cache-rules"
                    rows={rules}
                    sort="-saved"
                    id={row => row.rule}
                    path="/cache"
                    empty="No rule caches."
                    columns={[
                        { key: 'rule', head: 'rule', cell: row => <b>{row.rule}</b>, value: row => row.rule },
                        { key: 'saved', head: 'time saved', right: true, cell: row => micros(row.saved_us), value: row => row.saved_us },
                        { key: 'hits', head: 'hits', right: true, cell: row => number(row.hits), value: row => row.hits },
                        { key: 'misses', head: 'misses', right: true, cell: row => number(row.misses), value: row => row.misses },
                        { key: 'share', head: 'share', right: true, cell: row => share(row.hits, row.hits + row.misses), value: row => row.hits / Math.max(1, row.hits + row.misses) },
                        { key: 'bytes', head: 'sent', right: true, cell: row => bytes(row.bytes), value: row => row.bytes },
                        { key: 'refused', head: 'not cached because', wide: true, cell: row => <span class="text">{reasons(row.refused)}</span>, value: row => reasons(row.refused) },
                        { key: 'wipe', head: '', cell: row => <Act role="admin" onClick={() => setWipe({ rule: row.rule })}>wipe</Act> },
                    ]}
                />
            </Panel>
            <Panel title="Digests that a rule caches">
                <Table
                    name="cache-digests"
                    rows={digests.data?.digests ?? []}
                    sort="-saved"
                    id={row => `${row.hash}/${row.user}/${row.schema}`}
                    path="/cache/digests?limit=100"
                    empty="None yet."
                    onRow={row => go('digests', row.hash)}
                    columns={[
                        { key: 'text', head: 'digest', wide: true, cell: row => <code>{row.text}</code>, value: row => row.text },
                        { key: 'user', head: 'user', cell: row => row.user, value: row => row.user },
                        { key: 'saved', head: 'time saved', right: true, cell: row => micros(row.saved_us), value: row => row.saved_us },
                        { key: 'hits', head: 'hits', right: true, cell: row => number(row.hits), value: row => row.hits },
                        { key: 'misses', head: 'misses', right: true, cell: row => number(row.misses), value: row => row.misses },
                        { key: 'refused', head: 'not cached because', wide: true, cell: row => <span class="text">{reasons(row.refused)}</span>, value: row => reasons(row.refused) },
                    ]}
                />
            </Panel>
            <Panel title="Reads that are worth a rule" note={<Choice label="kept for" value={ttl} options={[['1000', '1 second'], ['10000', '10 seconds'], ['60000', 'a minute']]} onChange={setTtl} />}>
                <Table
                    name="candidates"
                    rows={candidates.data?.candidates ?? []}
                    sort="-saved"
                    id={row => `${row.hash}/${row.user}/${row.schema}`}
                    path={`/cache/candidates?ttl_ms=${ttl}&limit=100`}
                    empty="None yet. Digests must be counted: digests_max in [proxy]."
                    chosen={shown}
                    onRow={row => setShown(`${row.hash}/${row.user}/${row.schema}` === shown ? '' : `${row.hash}/${row.user}/${row.schema}`)}
                    columns={[
                        { key: 'text', head: 'digest', wide: true, cell: row => <code>{row.text}</code>, value: row => row.text },
                        { key: 'user', head: 'user', cell: row => row.user, value: row => row.user },
                        { key: 'saved', head: 'would save', right: true, cell: row => micros(row.saved_us), value: row => row.saved_us },
                        { key: 'time', head: 'takes', right: true, cell: row => micros(row.time_us), value: row => row.time_us },
                        { key: 'repeats', head: 'repeats', right: true, cell: row => share(row.hits[ttl] ?? 0, row.asked), value: row => (row.hits[ttl] ?? 0) / Math.max(1, row.asked) },
                        { key: 'statements', head: 'reads', right: true, cell: row => number(row.statements), value: row => row.statements },
                        { key: 'writes', head: 'writes to its tables', right: true, cell: row => number(row.writes), value: row => row.writes },
                    ]}
                />
                {candidates.data?.candidates.filter((row: any) => `${row.hash}/${row.user}/${row.schema}` === shown).map((row: any) => <Code text={row.rule.trimEnd()} />)}
                {candidates.data?.not_cacheable.length > 0 && <Empty>{candidates.data.not_cacheable.length} reads cannot be cached: {[...new Set(candidates.data.not_cacheable.map((row: any) => row.reason.replace(/_/g, ' ')))].join(', ')}.</Empty>}
            </Panel>
            {wipe && (
                <Order
                    title={wipe.rule ? `Wipe the results of rule ${wipe.rule}?` : 'Wipe the cache?'}
                    verb="wipe"
                    danger
                    act={async () => {
                        const done = await call('DELETE', '/cache' + query(wipe));
                        again();
                        return `${count(done.answers)} results are gone, ${bytes(done.bytes)}.`;
                    }}
                    onClose={() => setWipe(null)}
                >
                    <p>Servers answer these reads until the cache has them again{wipe.rule ? '' : `: ${count(data?.answers)} results, ${bytes(data?.bytes)}`}.</p>
                </Order>
            )}
        </>
    );
}
