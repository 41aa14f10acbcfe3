// The address behind #: a view, its subject, and its settings, so that each view can be sent as a link.

import { useEffect, useState } from 'preact/hooks';

export interface Place {
    view: string;
    rest: string;
    settings: URLSearchParams;
}

export function place(): Place {
    const [path = '', settings = ''] = location.hash.replace(/^#\/?/, '').split('?');
    const [view = '', ...rest] = path.split('/').map(decodeURIComponent);
    return { view: view || 'now', rest: rest.join('/'), settings: new URLSearchParams(settings) };
}

export function usePlace(): Place {
    const [here, set] = useState(place);
    useEffect(() => {
        const look = () => set(place());
        addEventListener('hashchange', look);
        // It may have changed before anybody listened.
        look();
        return () => removeEventListener('hashchange', look);
    }, []);
    return here;
}

export const link = (view: string, rest = '', settings: Record<string, string> = {}) => {
    const words = new URLSearchParams(settings).toString();
    return `#/${view}${rest ? '/' + encodeURIComponent(rest) : ''}${words ? '?' + words : ''}`;
};

export const go = (view: string, rest = '', settings: Record<string, string> = {}) => {
    location.hash = link(view, rest, settings);
};

/** A setting of this view that is kept in the address. */
export function useSetting(key: string, otherwise = ''): [string, (value: string) => void] {
    const here = usePlace();
    const set = (value: string) => {
        const now = place();
        if (value === otherwise) now.settings.delete(key);
        else now.settings.set(key, value);
        const words = now.settings.toString();
        const rest = now.rest ? '/' + encodeURIComponent(now.rest) : '';
        history.replaceState(null, '', `#/${now.view}${rest}${words ? '?' + words : ''}`);
        dispatchEvent(new HashChangeEvent('hashchange'));
    };
    return [here.settings.get(key) ?? otherwise, set];
}
