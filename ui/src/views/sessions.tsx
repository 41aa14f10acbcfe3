// Sessions: who does what right now, longest first, and how it ends.

import { useState } from 'preact/hooks';
import { call, query } from '../api';
import { useLook } from '../data';
import { bytes, many, millis } from '../format';
import { Act, Choice, Filter, Order, Table, Tag, Trouble } from '../parts';
import { go, link, useSetting } from '../route';
import { KillAll } from './digests';

const KINDS: Record<string, 'good' | 'warn' | 'bad' | 'dim' | 'info'> = {
    running: 'good',
    idle_in_transaction: 'warn',
    waits_for_connection: 'bad',
    waits_for_user_limit: 'bad',
    waits_for_server: 'bad',
};

export function Sessions() {
    const [where, setWhere] = useSetting('where');
    const [order, setOrder] = useSetting('order', 'busy');
    const path = `/sessions${query({ where, order, limit: 500, max_age_ms: 1000 })}`;
    const { data, error, again } = useLook(path, 2_000);
    const [one, setOne] = useState<{ id: number; what: string; text: string } | null>(null);
    const [all, setAll] = useState('');
    const digests = useLook('/digests?limit=1000', 15_000);
    const texts = new Map<string, string>((digests.data?.digests ?? []).map((row: any) => [row.hash, row.text]));
    const rows: any[] = data?.sessions ?? [];
    return (
        <>
            <div class="bar-of-tools">
                <Filter value={where} hint="user=app and state=running and ms>1000" onChange={setWhere} />
                <Choice
                    label="first"
                    value={order}
                    options={[['busy', 'longest busy'], ['transaction', 'oldest transaction'], ['connected', 'longest connected'], ['bytes', 'most bytes'], ['waited', 'longest waits'], ['id', 'lowest id']]}
                    onChange={setOrder}
                />
                <Act role="operate" danger id="kill-all-queries" onClick={() => setAll('query')}>
                    kill statements that fit
                </Act>
                <Act role="operate" danger id="kill-all" onClick={() => setAll('session')}>
                    kill sessions that fit
                </Act>
            </div>
            <Trouble error={error} />
            {data && (
                <p class="empty">
                    {data.met} of {data.all} sessions fit. Fields: id, user, client, program, schema, state, ms, digest, form, server, transaction_ms, pins, waits, waited_ms, received_bytes, sent_bytes.
                </p>
            )}
            <Table
                name="sessions"
                rows={rows}
                id={row => String(row.id)}
                path={path}
                empty={data ? 'No session fits.' : ''}
                columns={[
                    { key: 'id', head: 'id', roomy: true, right: true, cell: row => row.id, value: row => row.id },
                    { key: 'user', head: 'user', cell: row => row.user ?? '–', value: row => row.user },
                    { key: 'client', head: 'client', roomy: true, cell: row => row.client, value: row => row.client },
                    { key: 'program', head: 'program', extra: true, cell: row => row.program ?? '', value: row => row.program },
                    { key: 'schema', head: 'schema', extra: true, cell: row => row.schema ?? '', value: row => row.schema },
                    { key: 'state', head: 'state', cell: row => <Tag kind={KINDS[row.state]}>{row.state.replace(/_/g, ' ')}</Tag>, value: row => row.state },
                    { key: 'ms', head: 'for', right: true, cell: row => millis(row.ms), value: row => row.ms },
                    { key: 'form', head: 'statement', wide: true, cell: row => <Statement row={row} last={texts.get(row.digest)} />, value: row => row.form ?? '' },
                    { key: 'server', head: 'server', roomy: true, cell: row => (row.server ? <span title={`its id there: ${row.server_thread ?? '?'}`}>{row.server}</span> : ''), value: row => row.server },
                    { key: 'transaction', head: 'transaction', right: true, cell: row => millis(row.transaction_ms), value: row => row.transaction_ms },
                    { key: 'waited', head: 'waited', right: true, cell: row => <Waited row={row} />, value: row => row.waited_ms },
                    { key: 'received', head: 'in', extra: true, right: true, cell: row => bytes(row.received_bytes), value: row => row.received_bytes },
                    { key: 'sent', head: 'out', extra: true, right: true, cell: row => bytes(row.sent_bytes), value: row => row.sent_bytes },
                    { key: 'pins', head: 'pins', cell: row => row.pins.map((pin: string) => <Tag>{pin}</Tag>), value: row => row.pins.join(' ') },
                    {
                        key: 'kill',
                        head: '',
                        cell: row => (
                            <span class="acts">
                                {/running|waits/.test(row.state) && (
                                    <Act role="operate" onClick={() => setOne({ id: row.id, what: 'query', text: row.form ?? '' })}>
                                        kill query
                                    </Act>
                                )}
                                <Act role="operate" danger onClick={() => setOne({ id: row.id, what: 'session', text: row.form ?? '' })}>
                                    kill
                                </Act>
                            </span>
                        ),
                    },
                ]}
            />
            {one && (
                <Order
                    title={one.what === 'query' ? `Kill the statement of session ${one.id}?` : `Kill session ${one.id}?`}
                    verb="kill"
                    danger
                    act={async () => {
                        const page = await call('PUT', `/sessions/${one.id}/kill`, { what: one.what });
                        again();
                        return page.killed ? 'It has ended.' : 'There was nothing to end any more.';
                    }}
                    onClose={() => setOne(null)}
                >
                    <p>
                        <code>{one.text}</code>
                    </p>
                </Order>
            )}
            {all && (
                <KillAll
                    where={where}
                    what={all}
                    onClose={() => {
                        setAll('');
                        again();
                    }}
                />
            )}
        </>
    );
}

function Waited(props: { row: any }) {
    const { row } = props;
    return row.waits ? <span title={`${many(row.waits, 'statement')} waited for a connection, a limit or a server`}>{millis(row.waited_ms)}</span> : <></>;
}

function Statement(props: { row: any; last?: string }) {
    const { row } = props;
    if (row.form) {
        return (
            <a href={link('digests', row.digest)} title={row.form}>
                <code>{row.form}</code>
            </a>
        );
    }
    return row.digest ? (
        <button type="button" class="link" title="the digest it ran last" onClick={() => go('digests', row.digest)}>
            ran {props.last ? <code>{props.last}</code> : row.digest}
        </button>
    ) : (
        <></>
    );
}
