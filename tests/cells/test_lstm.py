"""The LSTM with a recurrent projection layer is the tied low-rank LSTM."""

import numpy as np
from oracles import sigmoid
from table import Row, assert_close, assert_equal, network, run

GATES = ("input", "forget", "candidate", "output")


def sak(x_weights, r_weights, biases, projection, c, r, xs):
    """Sak et al. 2014, without peepholes, as a float64 loop: (last c, every m, every r)."""
    ms, rs = [], []
    for x in xs:
        i, f, g, o = (x @ x_weights[k] + r @ r_weights[k] + biases[k] for k in GATES)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        m = sigmoid(o) * np.tanh(c)
        r = m @ projection
        ms.append(m)
        rs.append(r)
    return c, np.stack(ms), np.stack(rs)


def test_a_tied_low_rank_lstm_is_the_lstm_with_a_recurrent_projection():
    net = network(Row("lstm", "low_rank", tied=True))
    gates = {name: getattr(net.params, name) for name in GATES}
    for gate in gates.values():
        assert_equal(gate.recurrent.right, net.params.input.recurrent.right)
    x_weights, r_weights, biases = (
        {name: np.asarray(of(gate), np.float64) for name, gate in gates.items()}
        for of in (lambda gate: gate.input.kernel, lambda gate: gate.recurrent.left, lambda gate: gate.bias.bias)
    )
    projection = np.asarray(net.params.input.recurrent.right, np.float64).T
    c, h, xs = (np.asarray(a, np.float64) for a in (*net.carry, net.xs))
    end, ms, rs = sak(x_weights, r_weights, biases, projection, c, h @ projection, xs)
    carry, (ys, _) = run(net.cell, net.params, net.carry, net.xs)
    assert_close((carry.c, ys), (end, ms), rtol=2e-6)
    assert_close(np.asarray(ys, np.float64) @ projection, rs, rtol=2e-6)
