// Data that a view asks for again and again: one request at a time, none while the page is hidden.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Refusal, get } from './api';

export interface Looked<T> {
    data: T | undefined;
    error: string;
    again: () => void;
}

/** Asks now and every so many milliseconds; 0 is once. */
export function useLook<T = any>(path: string | null, everyMs = 0): Looked<T> {
    const [state, set] = useState<{ path: string | null; data?: T; error: string }>({ path, error: '' });
    const [turn, setTurn] = useState(0);
    const again = useCallback(() => setTurn(turn => turn + 1), []);
    useEffect(() => {
        if (path === null) return;
        const stop = new AbortController();
        let timer = 0;
        const look = async () => {
            if (!document.hidden && !isPaused()) {
                try {
                    const data = await get(path, stop.signal);
                    set({ path, data, error: '' });
                } catch (error) {
                    if (stop.signal.aborted) return;
                    set(old => ({ ...old, path, error: words(error) }));
                }
            }
            if (everyMs && !stop.signal.aborted) timer = setTimeout(look, everyMs);
        };
        look();
        return () => {
            stop.abort();
            clearTimeout(timer);
        };
    }, [path, everyMs, turn]);
    return { data: state.path === path || everyMs === 0 ? state.data : undefined, error: state.error, again };
}

export const words = (error: unknown) => (error instanceof Refusal || error instanceof Error ? error.message : String(error));

let paused = false;
export const isPaused = () => paused;
export function setPaused(now: boolean) {
    paused = now;
}

/** Samples of /now: the newest last. They are kept while the page is open, whichever view is shown. */
export const LIVE_MS = 2000;
const SAMPLES_MAX = 180;
let samples: any[] = [];
let liveError = '';
const watchers = new Set<() => void>();

export function startLive(): () => void {
    let stopped = false;
    let timer = 0;
    const look = async () => {
        if (!document.hidden && !paused) {
            try {
                const sample = await get('/now');
                if (stopped) return;
                // Another process has other counters.
                if (samples.length && samples[0].started_ms !== sample.started_ms) samples = [];
                samples = [...samples, sample].slice(-SAMPLES_MAX);
                liveError = '';
            } catch (error) {
                liveError = words(error);
            }
            watchers.forEach(tell => tell());
        }
        if (!stopped) timer = setTimeout(look, samples.length < 2 ? 500 : LIVE_MS);
    };
    look();
    return () => {
        stopped = true;
        samples = [];
        clearTimeout(timer);
    };
}

export function useLive(): { samples: any[]; now: any; before: any; error: string } {
    const [, turn] = useState(0);
    useEffect(() => {
        const tell = () => turn(turn => turn + 1);
        watchers.add(tell);
        return () => void watchers.delete(tell);
    }, []);
    const now = samples[samples.length - 1];
    return { samples, now, before: samples[Math.max(0, samples.length - 3)], error: liveError };
}

/** Growth in a second between two samples. */
export function rate(before: any, now: any, pick: (sample: any) => number): number {
    const seconds = (now?.at_ms - before?.at_ms) / 1000;
    return seconds > 0 ? Math.max(0, pick(now) - pick(before)) / seconds : 0;
}

export const total = (list: any[], key: string) => list.reduce((sum, one) => sum + (one[key] ?? 0), 0);

/** The time that a share of the statements between two samples did not exceed, in microseconds. */
export function quantile(bounds: number[], before: number[] | undefined, now: number[], q: number): number | null {
    const grown = now.map((value, index) => value - (before?.[index] ?? 0));
    const all = grown[grown.length - 1] ?? 0;
    if (all <= 0) return null;
    const place = grown.findIndex(value => value >= q * all);
    const above = grown[place] ?? all;
    const below = place > 0 ? (grown[place - 1] ?? 0) : 0;
    const [low, high] = [place > 0 ? (bounds[place - 1] ?? 0) : 0, bounds[place] ?? 0];
    return low + ((q * all - below) / Math.max(1, above - below)) * (high - low);
}

/** An older answer of a path: for figures of the last while, from counters since the start. */
export function usePast<T>(now: T | undefined, keepMs: number, path: string): T | undefined {
    const past = useRef<{ at: number; value: T }[]>([]);
    const asked = useRef(path);
    if (asked.current !== path) {
        asked.current = path;
        past.current = [];
    }
    if (now !== undefined && past.current[past.current.length - 1]?.value !== now) {
        past.current.push({ at: Date.now(), value: now });
        while (past.current.length > 2 && (past.current[1]?.at ?? 0) < Date.now() - keepMs) past.current.shift();
    }
    return past.current[0]?.value;
}
