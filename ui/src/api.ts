// Requests to Sqluice. The key is shown once, at the login; then a cookie stands for it, which scripts cannot read.

export type Role = 'view' | 'operate' | 'admin';
export const ROLES: Role[] = ['view', 'operate', 'admin'];

/** A request that failed: the status, and the words of the reply. */
export class Refusal extends Error {
    constructor(readonly status: number, words: string, readonly page?: any) {
        super(words);
    }
}

let token = '';
let onLogout = () => {};

export function whenLoggedOut(then: () => void) {
    onLogout = then;
}

export async function call(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<any> {
    const headers: Record<string, string> = {};
    if (method !== 'GET') headers['x-sqluice-token'] = token;
    if (body !== undefined) headers['content-type'] = 'application/json';
    const sent = body === undefined ? undefined : JSON.stringify(body);
    let reply: Response;
    try {
        reply = await fetch('api/v1' + path, { method, headers, body: sent, signal, credentials: 'same-origin' });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new Refusal(0, 'Sqluice cannot be reached');
    }
    const text = await reply.text();
    let page: any;
    try {
        page = JSON.parse(text);
    } catch {
        page = undefined;
    }
    if (reply.ok) return page;
    if (reply.status === 401 && path !== '/login') onLogout();
    const others = Array.isArray(page?.others) && page.others.length ? ` (${page.others.join('; ')})` : '';
    throw new Refusal(reply.status, (page?.error ?? text.trim() ?? '') + others || `status ${reply.status}`, page);
}

export const get = (path: string, signal?: AbortSignal) => call('GET', path, undefined, signal);

/** The role of the login that the browser has, if it has one. */
export async function whoAmI(): Promise<Role | null> {
    try {
        const login = await call('GET', '/login');
        token = login.token;
        return login.role;
    } catch (error) {
        if (error instanceof Refusal && (error.status === 401 || error.status === 403)) return null;
        throw error;
    }
}

export async function logIn(key: string): Promise<Role> {
    const login = await call('POST', '/login', { key });
    token = login.token;
    return login.role;
}

export async function logOut() {
    await call('DELETE', '/login').catch(() => {});
    token = '';
    onLogout();
}

/** A query string of what is set. */
export function query(pairs: Record<string, string | number | undefined>): string {
    const set = Object.entries(pairs).filter(([, value]) => value !== undefined && value !== '');
    const words = set.map(([key, value]) => `${key}=${encodeURIComponent(String(value))}`);
    return words.length ? '?' + words.join('&') : '';
}

export function curl(path: string): string {
    return `curl -H "Authorization: Bearer $KEY" '${location.origin}/api/v1${path}'`;
}
