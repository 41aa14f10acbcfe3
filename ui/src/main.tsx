import { render } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Role, logIn, logOut, whenLoggedOut, whoAmI } from './api';
import { isPaused, setPaused, startLive, useLive, words } from './data';
import { span } from './format';
import { Dialog, Trouble, setRole } from './parts';
import { go, link, usePlace } from './route';
import { Cache } from './views/cache';
import { Digests } from './views/digests';
import { Errors } from './views/errors';
import { Log } from './views/log';
import { Now } from './views/now';
import { Rules } from './views/rules';
import { Servers } from './views/servers';
import { Sessions } from './views/sessions';
import { Timeline } from './views/timeline';
import { Workers } from './views/workers';

/** Address, name, the key behind g, and what it answers. */
const VIEWS = [
    ['now', 'Now', 'n', Now],
    ['digests', 'Digests', 'd', Digests],
    ['sessions', 'Sessions', 's', Sessions],
    ['servers', 'Servers', 'v', Servers],
    ['errors', 'Errors', 'e', Errors],
    ['rules', 'Rules', 'r', Rules],
    ['cache', 'Cache', 'c', Cache],
    ['workers', 'Workers', 'w', Workers],
    ['timeline', 'Timeline', 't', Timeline],
    ['log', 'Log', 'l', Log],
] as const;

function App() {
    const [role, set] = useState<Role | null | undefined>(undefined);
    const [error, setError] = useState('');
    useEffect(() => {
        whenLoggedOut(() => set(null));
        whoAmI().then(set, error => {
            setError(words(error));
            set(null);
        });
    }, []);
    if (role === undefined) return null;
    if (role === null) return <Login error={error} onLogin={set} />;
    setRole(role);
    return <Page role={role} />;
}

function Login(props: { error: string; onLogin: (role: Role) => void }) {
    const [error, setError] = useState(props.error);
    const [key, setKey] = useState('');
    const [busy, setBusy] = useState(false);
    const send = async (event: Event) => {
        event.preventDefault();
        setBusy(true);
        setError('');
        try {
            props.onLogin(await logIn(key.trim()));
        } catch (error) {
            setError(words(error));
            setBusy(false);
        }
    };
    return (
        <form class="login" onSubmit={send}>
            <h1>Sqluice</h1>
            <label for="key">Key</label>
            <input
                id="key"
                type="password"
                autocomplete="current-password"
                autofocus
                value={key}
                onInput={event => setKey(event.currentTarget.value)}
            />
            <button id="log-in" class="main" disabled={busy || !key.trim()}>
                Log in
            </button>
            <Trouble error={error} />
            <p>
                The key is <code>admin.key</code>, <code>admin.operate_key</code> or <code>admin.view_key</code> of the configuration.
            </p>
        </form>
    );
}

function useTheme(): [string, () => void] {
    const [theme, set] = useState(() => localStorage.getItem('theme') ?? 'auto');
    useEffect(() => {
        const root = document.documentElement;
        if (theme === 'auto') delete root.dataset.theme;
        else root.dataset.theme = theme;
        localStorage.setItem('theme', theme);
    }, [theme]);
    return [theme, () => set(theme === 'auto' ? 'dark' : theme === 'dark' ? 'light' : 'auto')];
}

function useKeys(help: () => void, pause: () => void, theme: () => void) {
    // When g was pressed. It outlives each drawing of the page: one may come between g and the key of a view.
    const g = useRef(0);
    useEffect(() => {
        const pressed = (event: KeyboardEvent) => {
            const typing = event.target instanceof HTMLElement && event.target.matches('input, select, textarea');
            if (event.key === 'Escape' && typing) (event.target as HTMLElement).blur();
            if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
            const isSecond = Date.now() - g.current < 1500;
            g.current = 0;
            if (isSecond) {
                const view = VIEWS.find(([, , key]) => key === event.key);
                if (view) return go(view[0]);
            }
            if (event.key === 'g') g.current = Date.now();
            else if (event.key === '/') {
                event.preventDefault();
                document.getElementById('filter')?.focus();
            } else if (event.key === '?') help();
            else if (event.key === 'p') pause();
            else if (event.key === 't') theme();
        };
        addEventListener('keydown', pressed);
        return () => removeEventListener('keydown', pressed);
    });
}

function Page(props: { role: Role }) {
    const here = usePlace();
    const [help, setHelp] = useState(false);
    const [pausedNow, setPausedNow] = useState(isPaused());
    const [theme, turnTheme] = useTheme();
    const pause = () => {
        setPaused(!isPaused());
        setPausedNow(isPaused());
    };
    useKeys(() => setHelp(true), pause, turnTheme);
    useEffect(startLive, []);
    const [view, name, , View] = VIEWS.find(([view]) => view === here.view) ?? VIEWS[0];
    useEffect(() => {
        document.title = `${name} – Sqluice`;
    }, [name]);
    return (
        <>
            <header class="top">
                <a class="brand" href={link('now')}>
                    Sqluice
                </a>
                <nav aria-label="Views">
                    {VIEWS.map(([own, name, key]) => (
                        <a href={link(own)} class={own === view ? 'here' : ''} aria-current={own === view ? 'page' : undefined} title={`g ${key}`}>
                            {name}
                        </a>
                    ))}
                </nav>
                <span class="tools">
                    <span id="role" class="tag info" title="the role of your key">
                        {props.role}
                    </span>
                    <button type="button" onClick={pause} title="p" aria-pressed={pausedNow}>
                        {pausedNow ? 'go on' : 'pause'}
                    </button>
                    <button type="button" onClick={turnTheme} title="t: dark, light, or as the system">
                        {theme}
                    </button>
                    <button type="button" onClick={() => setHelp(true)} title="?">
                        ?
                    </button>
                    <button id="log-out" type="button" onClick={logOut}>
                        log out
                    </button>
                </span>
            </header>
            <Banner paused={pausedNow} />
            <main id={'view-' + view}>
                <View key={view} />
            </main>
            {help && <Help onClose={() => setHelp(false)} />}
        </>
    );
}

/** What is wrong now stands above every view. */
function Banner(props: { paused: boolean }) {
    const { now, error } = useLive();
    const diagnoses = (now?.clusters ?? []).flatMap((cluster: any) => cluster.diagnoses.map((one: any) => ({ ...one, cluster: cluster.name })));
    const holding = (now?.clusters ?? []).filter((cluster: any) => cluster.hold_writes);
    return (
        <div class="banner">
            <Trouble error={error} />
            {props.paused && <p class="notice">Paused: the figures stand still. Press p to go on.</p>}
            {now?.draining && <p class="notice">This process is stopping: it takes no new clients.</p>}
            {holding.map((cluster: any) => (
                <p class="notice">Cluster {cluster.name} holds writes.</p>
            ))}
            {diagnoses.map((one: any) => (
                <p class={one.severe ? 'trouble' : 'notice'}>
                    <a href={link('servers')}>
                        {one.cluster}: {one.name}
                    </a>{' '}
                    {one.text}
                </p>
            ))}
        </div>
    );
}

function Help(props: { onClose: () => void }) {
    const { now } = useLive();
    const keys = VIEWS.map(([, name, key]) => [`g ${key}`, name]);
    return (
        <Dialog title="Keys" onClose={props.onClose}>
            <dl class="keys">
                {[...keys, ['/', 'to the filter'], ['p', 'pause, go on'], ['t', 'dark, light, as the system'], ['?', 'this text'], ['Esc', 'close, leave a field']].map(
                    ([key, text]) => (
                        <>
                            <dt>
                                <kbd>{key}</kbd>
                            </dt>
                            <dd>{text}</dd>
                        </>
                    ),
                )}
            </dl>
            {now && (
                <p>
                    Sqluice {now.version}, running for {span((now.at_ms - now.started_ms) / 1000)}
                </p>
            )}
            <footer>
                <button type="button" onClick={props.onClose}>
                    close
                </button>
            </footer>
        </Dialog>
    );
}

const root = document.getElementById('app');
if (root) render(<App />, root);
