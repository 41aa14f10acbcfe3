// Parts that views are made of. Texts of statements and errors are text nodes, never markup.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ROLES, type Role, curl } from './api';
import { words } from './data';
import { useSetting } from './route';

let ownRole: Role = 'view';
export function setRole(role: Role) {
    ownRole = role;
}
export const may = (needed: Role) => ROLES.indexOf(ownRole) >= ROLES.indexOf(needed);

export function Panel(props: { title?: string; note?: ComponentChildren; class?: string; children: ComponentChildren }) {
    return (
        <section class={'panel ' + (props.class ?? '')}>
            {props.title && (
                <h2>
                    {props.title} {props.note && <small>{props.note}</small>}
                </h2>
            )}
            {props.children}
        </section>
    );
}

export function Figure(props: { name: string; value: ComponentChildren; note?: ComponentChildren; bad?: boolean }) {
    return (
        <div class={'figure' + (props.bad ? ' bad' : '')}>
            <span>{props.name}</span>
            <b>{props.value}</b>
            <small>{props.note ?? ' '}</small>
        </div>
    );
}

export function Tag(props: { kind?: 'good' | 'warn' | 'bad' | 'dim' | 'info'; children: ComponentChildren; title?: string }) {
    return (
        <span class={'tag ' + (props.kind ?? 'dim')} title={props.title}>
            {props.children}
        </span>
    );
}

export const healthKind = (health: string) => (health === 'up' ? 'good' : health === 'down' ? 'bad' : 'warn');

export function Trouble(props: { error?: string }) {
    return props.error ? (
        <p class="trouble" role="alert">
            {props.error}
        </p>
    ) : null;
}

export function Empty(props: { children: ComponentChildren }) {
    return <p class="empty">{props.children}</p>;
}

/** A button for those whose role allows it; others see why not. */
export function Act(props: { role?: Role; onClick: () => void; danger?: boolean; id?: string; children: ComponentChildren }) {
    const allowed = !props.role || may(props.role);
    return (
        <button
            type="button"
            id={props.id}
            class={props.danger ? 'danger' : ''}
            disabled={!allowed}
            title={allowed ? undefined : `This needs the role ${props.role}; your key has the role ${ownRole}.`}
            onClick={event => {
                event.stopPropagation();
                props.onClick();
            }}
        >
            {props.children}
        </button>
    );
}

export function Choice(props: { value: string; options: (string | [string, string])[]; label: string; onChange: (value: string) => void }) {
    return (
        <label class="choice">
            <span>{props.label}</span>
            <select value={props.value} onChange={event => props.onChange(event.currentTarget.value)}>
                {props.options.map(option => {
                    const [value, text] = typeof option === 'string' ? [option, option] : option;
                    return <option value={value}>{text}</option>;
                })}
            </select>
        </label>
    );
}

/** The field that / goes to. It takes effect a moment after the last key. */
export function Filter(props: { value: string; hint: string; onChange: (value: string) => void }) {
    const [text, setText] = useState(props.value);
    const timer = useRef(0);
    useEffect(() => setText(props.value), [props.value]);
    return (
        <input
            id="filter"
            type="search"
            class="filter"
            aria-label="Filter"
            placeholder={props.hint + '   (press /)'}
            value={text}
            spellcheck={false}
            autocomplete="off"
            onInput={event => {
                const value = event.currentTarget.value;
                setText(value);
                clearTimeout(timer.current);
                timer.current = setTimeout(() => props.onChange(value.trim()), 350);
            }}
        />
    );
}

export function Code(props: { text: string; id?: string }) {
    const [done, setDone] = useState(false);
    return (
        <div class="code">
            <pre id={props.id}>{props.text}</pre>
            <button type="button" onClick={() => copy(props.text).then(() => setDone(true))}>
                {done ? 'copied' : 'copy'}
            </button>
        </div>
    );
}

/** navigator.clipboard is for https and localhost only. */
export async function copy(text: string) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = document.createElement('textarea');
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
    }
}

export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren }) {
    const own = useRef<HTMLDialogElement>(null);
    useEffect(() => {
        if (!own.current?.open) own.current?.showModal();
    }, []);
    return (
        <dialog ref={own} onClose={props.onClose} onClick={event => event.target === own.current && own.current?.close()}>
            <div class="dialog">
                <h2>{props.title}</h2>
                {props.children}
            </div>
        </dialog>
    );
}

/** Asks before it does something: first a look at what would happen, if there is one, and then the doing. */
export function Order(props: {
    title: string;
    danger?: boolean;
    verb: string;
    look?: () => Promise<ComponentChildren>;
    act: () => Promise<ComponentChildren>;
    onClose: () => void;
    children?: ComponentChildren;
}) {
    const [preview, setPreview] = useState<ComponentChildren>(null);
    const [result, setResult] = useState<ComponentChildren>(null);
    const [error, setError] = useState('');
    const [busy, setBusy] = useState(false);
    const [can, setCan] = useState(!props.look);
    const look = () => {
        setError('');
        props.look?.().then(
            shown => {
                setPreview(shown);
                setCan(true);
            },
            error => {
                setPreview(null);
                setCan(false);
                setError(words(error));
            },
        );
    };
    useEffect(look, [props.look]);
    const act = () => {
        setBusy(true);
        setError('');
        props.act().then(
            shown => {
                setBusy(false);
                setResult(shown);
            },
            error => {
                setBusy(false);
                setError(words(error));
            },
        );
    };
    return (
        <Dialog title={props.title} onClose={props.onClose}>
            {!result && props.children}
            {!result && preview && <div class="preview">{preview}</div>}
            {result && <div class="result">{result}</div>}
            <Trouble error={error} />
            <footer>
                {!result && (
                    <button id="do" type="button" class={props.danger ? 'danger' : 'main'} disabled={busy || !can} onClick={act}>
                        {busy ? 'under way …' : props.verb}
                    </button>
                )}
                <button id="close" type="button" onClick={props.onClose}>
                    {result ? 'close' : 'cancel'}
                </button>
            </footer>
        </Dialog>
    );
}

export interface Column<T> {
    key: string;
    head: string;
    cell: (row: T) => ComponentChildren;
    /** The value for sorting and files; without it the column is neither sorted nor saved. */
    value?: (row: T) => string | number | null | undefined;
    right?: boolean;
    wide?: boolean;
    /** Left out where the window has no room for it; files have it. */
    extra?: boolean;
    /** Left out on a telephone. */
    roomy?: boolean;
    title?: string;
}

const classes = (column: Column<any>) => [column.right && 'right', column.wide && 'wide', column.extra && 'extra', column.roomy && 'roomy'].filter(Boolean).join(' ');


const ROWS_MAX = 500;

/** A table that is sorted by a click, and saved as CSV or JSON. Its order is a part of the address. */
export function Table<T = any>(props: {
    name: string;
    rows: T[];
    columns: Column<T>[];
    sort?: string;
    path?: string;
    id?: (row: T) => string;
    onRow?: (row: T) => void;
    chosen?: string;
    empty?: string;
}) {
    const [sort, setSort] = useSetting(props.name + '.sort', props.sort ?? '');
    const [by, down] = sort.startsWith('-') ? [sort.slice(1), true] : [sort, false];
    const column = props.columns.find(column => column.key === by);
    const rows = [...props.rows];
    if (column?.value) {
        const value = column.value;
        rows.sort((one, other) => (down ? -1 : 1) * compare(value(one), value(other)));
    }
    if (!rows.length) return <Empty>{props.empty ?? 'Nothing to show.'}</Empty>;
    const values = props.columns.filter(column => column.value);
    return (
        <div class="table" id={'table-' + props.name}>
            <div class="scroll">
                <table>
                    <thead>
                        <tr>
                            {props.columns.map(column => (
                                <th
                                    class={classes(column)}
                                    title={column.title}
                                    aria-sort={column.key === by ? (down ? 'descending' : 'ascending') : undefined}
                                >
                                    {column.value ? (
                                        <button type="button" onClick={() => setSort(column.key === by && down ? column.key : '-' + column.key)}>
                                            {column.head}
                                            {column.key === by ? (down ? ' ▾' : ' ▴') : ''}
                                        </button>
                                    ) : (
                                        column.head
                                    )}
                                </th>
                            ))}
                        </tr>
                    </thead>
                    <tbody>
                        {rows.slice(0, ROWS_MAX).map(row => {
                            const id = props.id?.(row);
                            return (
                                <tr
                                    key={id}
                                    class={(props.onRow ? 'row ' : '') + (id && id === props.chosen ? 'chosen' : '')}
                                    tabIndex={props.onRow ? 0 : undefined}
                                    onClick={() => props.onRow?.(row)}
                                    onKeyDown={event => event.key === 'Enter' && event.target === event.currentTarget && props.onRow?.(row)}
                                >
                                    {props.columns.map(column => (
                                        <td class={classes(column)}>{column.cell(row)}</td>
                                    ))}
                                </tr>
                            );
                        })}
                    </tbody>
                </table>
            </div>
            <p class="under">
                {rows.length > ROWS_MAX ? `${ROWS_MAX} of ${rows.length} rows` : `${rows.length} ${rows.length === 1 ? 'row' : 'rows'}`}
                <button type="button" onClick={() => save(props.name + '.csv', 'text/csv', csv(values, rows))}>
                    CSV
                </button>
                <button type="button" onClick={() => save(props.name + '.json', 'application/json', JSON.stringify(rows, null, 1))}>
                    JSON
                </button>
                {props.path && <Curl path={props.path} />}
            </p>
        </div>
    );
}

function Curl(props: { path: string }) {
    const [done, setDone] = useState(false);
    return (
        <button type="button" title={curl(props.path)} onClick={() => copy(curl(props.path)).then(() => setDone(true))}>
            {done ? 'copied' : 'as curl'}
        </button>
    );
}

function compare(one: string | number | null | undefined, other: string | number | null | undefined): number {
    if (one === other) return 0;
    if (one === null || one === undefined) return -1;
    if (other === null || other === undefined) return 1;
    return one < other ? -1 : 1;
}

function csv<T>(columns: Column<T>[], rows: T[]): string {
    // A spreadsheet runs a text that begins like a formula.
    const plain = (text: string) => (/^[=+\-@\t\r]/.test(text) ? "'" + text : text);
    const quoted = (value: string | number | null | undefined) =>
        typeof value === 'number' ? String(value) : '"' + plain(String(value ?? '')).replace(/"/g, '""') + '"';
    const lines = rows.map(row => columns.map(column => quoted(column.value?.(row))).join(','));
    return [columns.map(column => quoted(column.head)).join(','), ...lines].join('\r\n') + '\r\n';
}

function save(name: string, type: string, text: string) {
    const anchor = document.createElement('a');
    anchor.href = URL.createObjectURL(new Blob([text], { type }));
    anchor.download = 'sqluice-' + name;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 1000);
}

export function Bar(props: { share: number; label?: string }) {
    const width = Math.max(0, Math.min(1, props.share));
    const style = { width: `${(100 * width).toFixed(1)}%` };
    return (
        <span class="bar" title={props.label}>
            <i class={width > 0.9 ? 'hot' : ''} style={style} />
        </span>
    );
}

export const matches = (needle: string, ...texts: (string | null | undefined)[]) => {
    const parts = needle.toLowerCase().split(/\s+/).filter(Boolean);
    const all = texts.join('\n').toLowerCase();
    return parts.every(part => all.includes(part));
};
