// Log: the last events, the newest first, as they come.

import { useEffect, useState } from 'preact/hooks';
import { get, query } from '../api';
import { isPaused, words } from '../data';
import { clock, micros } from '../format';
import { Act, Empty, Filter, Table, Tag, Trouble } from '../parts';
import { link, useSetting } from '../route';

const KEPT = 500;

/** An event without a statement, in words. */
function said(row: any): string {
    if (row.kind === 'admin') return [row.way, row.action, row.order, row.result].filter(Boolean).join(' ');
    return row.count > 1 ? `${row.count} clients: ${row.reason}` : (row.reason ?? '');
}

export function Log() {
    const [where, setWhere] = useSetting('where');
    const [events, setEvents] = useState<any[]>([]);
    const [missed, setMissed] = useState(0);
    const [error, setError] = useState('');
    const [open, setOpen] = useState<number | null>(null);
    useEffect(() => {
        const stop = new AbortController();
        let after: number | undefined;
        let timer = 0;
        setEvents([]);
        setMissed(0);
        const look = async () => {
            if (!document.hidden && !isPaused()) {
                try {
                    const page = await get('/events/tail' + query({ where, after, limit: KEPT }), stop.signal);
                    if (after !== undefined) setMissed(missed => missed + page.missed);
                    after = page.newest;
                    if (page.events.length) setEvents(old => [...page.events.reverse(), ...old].slice(0, KEPT));
                    setError('');
                } catch (error) {
                    if (stop.signal.aborted) return;
                    setError(words(error));
                }
            }
            if (!stop.signal.aborted) timer = setTimeout(look, 1_000);
        };
        look();
        return () => {
            stop.abort();
            clearTimeout(timer);
        };
    }, [where]);
    return (
        <>
            <div class="bar-of-tools">
                <Filter value={where} hint="kind=query and ms>100 and user=app" onChange={setWhere} />
                <Act onClick={() => setEvents([])}>clear</Act>
                {missed > 0 && <Tag kind="warn">{missed} events went by unseen</Tag>}
            </div>
            <Trouble error={error} />
            <Table
                name="log"
                rows={events}
                id={row => String(row.seq)}
                path={'/events/tail' + query({ where, limit: KEPT })}
                chosen={String(open)}
                onRow={row => setOpen(open === row.seq ? null : row.seq)}
                empty={'No event yet. [events] queries = "all" makes events of queries; logins are always there.'}
                columns={[
                    { key: 'ts', head: 'time', cell: row => clock(Date.parse(row.ts)), value: row => row.ts },
                    { key: 'kind', head: 'kind', cell: row => <Tag kind={row.error || row.ok === false || row.kind === 'refused' ? 'bad' : row.kind === 'query' ? 'dim' : 'info'}>{row.kind}</Tag>, value: row => row.kind },
                    { key: 'session', head: 'session', roomy: true, right: true, cell: row => row.session ?? '', value: row => row.session },
                    { key: 'user', head: 'user', cell: row => row.user ?? '', value: row => row.user },
                    { key: 'client', head: 'client', roomy: true, cell: row => row.client ?? '', value: row => row.client },
                    { key: 'server', head: 'by', cell: row => row.server ?? row.answered_by ?? '', value: row => row.server ?? row.answered_by },
                    { key: 'total', head: 'took', right: true, cell: row => micros(row.times?.total), value: row => row.times?.total },
                    { key: 'rows', head: 'rows', roomy: true, right: true, cell: row => row.rows_sent ?? row.rows_affected ?? '', value: row => row.rows_sent ?? row.rows_affected },
                    {
                        key: 'text',
                        head: 'what',
                        wide: true,
                        cell: row =>
                            open === row.seq ? (
                                <pre>{JSON.stringify(row, null, 1)}</pre>
                            ) : (
                                <>
                                    {row.error && <Tag kind="bad">{row.error.code}</Tag>} {row.digest ? <a href={link('digests', row.digest)}><code>{row.form}</code></a> : <span class="text">{said(row)}</span>}
                                </>
                            ),
                        value: row => row.form ?? said(row),
                    },
                ]}
            />
            {events.length >= KEPT && <Empty>The last {KEPT} are shown. `sqluice log tail` shows more.</Empty>}
        </>
    );
}
