// The plan of a digest: a replica explains its sample when an operator asks, and the plan is kept.

import { useState } from 'preact/hooks';
import { call } from '../api';
import { useLook, words } from '../data';
import { moment } from '../format';
import { Act, Choice, Trouble } from '../parts';

// The cluster that has run the digest, if it is only one.
const OWN = 'its own';

export function Plans(props: { hash: string; cluster: string }) {
    const path = `/digests/${props.hash}/explain`;
    const { data, again } = useLook(path);
    const clusters = useLook('/clusters');
    const names: string[] = (clusters.data?.clusters ?? []).map((cluster: any) => cluster.name);
    const [cluster, setCluster] = useState(props.cluster || OWN);
    const [error, setError] = useState('');
    const ask = async () => {
        setError('');
        try {
            await call('POST', path, cluster === OWN ? {} : { cluster });
            again();
        } catch (error) {
            setError(words(error));
        }
    };
    return (
        <div class="plan">
            <p class="acts">
                {names.length > 1 && <Choice label="cluster" value={cluster} options={[OWN, ...names]} onChange={setCluster} />}
                <Act role="operate" onClick={ask} id="explain">
                    explain on a replica
                </Act>
            </p>
            <Trouble error={error} />
            {(data?.plans ?? []).map((plan: any) => (
                <>
                    <p class="empty">
                        {plan.server} in {plan.cluster}, {moment(plan.at_ms)}, schema {plan.schema || '–'}
                    </p>
                    <div class="wideview">
                        <table class="steps">
                            <thead>
                                <tr>{plan.columns.map((column: string) => <th>{column}</th>)}</tr>
                            </thead>
                            <tbody>{plan.rows.map((row: (string | null)[]) => <tr>{row.map(value => <td>{value ?? '–'}</td>)}</tr>)}</tbody>
                        </table>
                    </div>
                </>
            ))}
        </div>
    );
}
