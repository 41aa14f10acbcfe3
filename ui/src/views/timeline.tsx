// Timeline: what was decided, ordered, read again and marked, in one order.

import { useEffect, useState } from 'preact/hooks';
import { call, get } from '../api';
import { useLook, words } from '../data';
import { moment } from '../format';
import { Act, Choice, Empty, Filter, Tag, Trouble, matches } from '../parts';
import { useSetting } from '../route';
import { KINDS } from './servers';

interface Entry {
    at: number;
    order: number;
    kind: string;
    tag: 'good' | 'warn' | 'bad' | 'dim' | 'info';
    who: string;
    text: string;
}

const SEVERITIES: Record<string, Entry['tag']> = { info: 'good', warn: 'warn', error: 'bad' };

export function Timeline() {
    const [filter, setFilter] = useSetting('f');
    const [kind, setKind] = useSetting('kind', 'most');
    const changes = useLook('/changes?limit=2000', 5_000);
    const marks = useLook('/marks?from=-30d&limit=200', 5_000);
    const clusters = useLook('/clusters', 5_000);
    const names: string = (clusters.data?.clusters ?? []).map((cluster: any) => cluster.name).join(' ');
    const [journal, setJournal] = useState<any[]>([]);
    const [error, setError] = useState('');
    useEffect(() => {
        let stopped = false;
        Promise.all(names.split(' ').filter(Boolean).map(name => get(`/clusters/${name}/journal?limit=500`))).then(
            pages => {
                if (stopped) return;
                setJournal(pages.flatMap(page => page.journal));
                setError('');
            },
            error => setError(words(error)),
        );
        return () => {
            stopped = true;
        };
    }, [clusters.data]);
    const [text, setText] = useState('');
    const entries: Entry[] = [
        ...journal.map((line: any): Entry => ({ at: line.at_ms, order: line.number, kind: line.kind === 'step' || line.kind === 'done' ? 'step' : 'decision', tag: KINDS[line.kind] ?? 'dim', who: [line.cluster, line.server].filter(Boolean).join(' '), text: `${line.kind === 'decision' ? '' : line.kind + ': '}${line.text}` })),
        ...(changes.data?.changes ?? []).filter((change: any) => change.kind === 'state').map((change: any): Entry => ({ at: change.at_ms, order: 1e9, kind: 'state', tag: SEVERITIES[change.severity] ?? 'dim', who: change.cluster, text: change.text })),
        ...(changes.data?.changes ?? []).filter((change: any) => change.kind !== 'state').map((change: any): Entry => ({
            at: change.at_ms,
            order: 1e9,
            kind: change.kind === 'login' ? 'login' : change.kind !== 'order' ? 'config' : /"dry_run":true/.test(change.order) ? 'look' : 'order',
            tag: /^[45]/.test(change.result) ? 'bad' : change.kind === 'order' ? 'warn' : 'dim',
            who: change.role ? `${change.role} at ${change.client ?? 'local'} by ${change.way}` : '',
            text: [change.text, change.order, change.result && `→ ${change.result}`].filter(Boolean).join(' '),
        })),
        ...(marks.data?.marks ?? []).map((mark: any): Entry => ({ at: mark.at * 1000, order: 0, kind: 'mark', tag: 'info', who: mark.author, text: mark.text })),
    ];
    const shown = entries
        .filter(entry => (kind === 'most' ? !['login', 'step', 'look'].includes(entry.kind) : kind === 'all' || entry.kind === kind) && matches(filter, entry.text, entry.who, entry.kind))
        .sort((one, other) => other.at - one.at || other.order - one.order)
        .slice(0, 500);
    const mark = (event: Event) => {
        event.preventDefault();
        call('POST', '/marks', { text, author: 'page' }).then(
            () => {
                setText('');
                setError('');
                marks.again();
            },
            error => setError(words(error)),
        );
    };
    return (
        <>
            <div class="bar-of-tools">
                <Filter value={filter} hint="text, server, role" onChange={setFilter} />
                <Choice label="show" value={kind} options={[['most', 'what changed something'], ['all', 'everything'], ['state', 'state of servers'], ['decision', 'decisions'], ['step', 'steps'], ['order', 'orders'], ['config', 'configuration'], ['mark', 'marks'], ['login', 'logins of this page']]} onChange={setKind} />
                <form class="acts" onSubmit={mark}>
                    <input id="mark" placeholder="deploy 7" aria-label="Text of a mark" maxLength={200} value={text} onInput={event => setText(event.currentTarget.value)} />
                    <Act role="operate" onClick={() => text.trim() && mark(new Event('submit'))}>
                        set a mark
                    </Act>
                </form>
            </div>
            <Trouble error={error || changes.error} />
            {marks.error && <Empty>{marks.error}</Empty>}
            <ol class="lines" id="timeline">
                {shown.map(entry => (
                    <li>
                        <time>{moment(entry.at)}</time> <Tag kind={entry.tag}>{entry.kind}</Tag> {entry.who && <b>{entry.who} </b>}
                        {entry.text}
                    </li>
                ))}
            </ol>
            {!shown.length && <Empty>Nothing fits.</Empty>}
        </>
    );
}
