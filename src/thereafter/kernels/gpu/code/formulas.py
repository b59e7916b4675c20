"""What a unit computes at a step, and its derivative. Every cell here has four blocks a0 to a3 of W x + U h + b.

    lstm            i, f, o = sigmoid(a0, a1, a3), g = tanh(a2), c' = f c + i g, h' = o tanh(c')
    coupled         the same with f = 1 - i; a1 is 0
    gru_old         r, z = sigmoid(a0, a1), n = tanh(a2 + r a3), c' = z c + (1 - z) n;  a2 has W x alone, a3 U h alone
    gru_new         the same with c' = (1 - z) c + z n
    tanh, relu, ... c' = f(a0); the others are 0

A cell without a memory cell has its state in c: h' = c', kept in float32. `kept` are the four numbers that the
backward pass needs of a step.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def reciprocal(x):
    return gl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=gl.float32, is_pure=True, pack=1)


@gluon.jit
def sigmoid(x):
    return reciprocal(1.0 + gl.exp2(x * -1.4426950408889634))


@gluon.jit
def tanh(x):
    return 2.0 * reciprocal(1.0 + gl.exp2(x * -2.885390081777927)) - 1.0


@gluon.jit
def activation(x, FORM: gl.constexpr):
    """A simple recurrent network's f."""
    if FORM == "tanh":
        return tanh(x)
    elif FORM == "relu":
        return gl.maximum(x, 0.0)
    elif FORM == "leaky_relu":
        return gl.where(x > 0.0, x, 0.01 * x)
    elif FORM == "relu6":
        return gl.minimum(gl.maximum(x, 0.0), 6.0)
    elif FORM == "sigmoid":
        return sigmoid(x)
    else:
        return x


@gluon.jit
def slope(y, FORM: gl.constexpr):
    """Its derivative, from what it gave."""
    if FORM == "tanh":
        return 1.0 - y * y
    elif FORM == "relu":
        return gl.where(y > 0.0, 1.0, 0.0)
    elif FORM == "leaky_relu":
        return gl.where(y > 0.0, 1.0, 0.01)
    elif FORM == "relu6":
        return gl.where((y > 0.0) & (y < 6.0), 1.0, 0.0)
    elif FORM == "sigmoid":
        return y * (1.0 - y)
    else:
        return gl.zeros_like(y) + 1.0


@gluon.jit
def update(old, new, z, FORM: gl.constexpr):
    """A GRU's h' from h and its candidate."""
    if FORM == "gru_old":
        return new + z * (old - new)
    else:
        return old + z * (new - old)


@gluon.jit
def retreat_update(dh, old, new, z, FORM: gl.constexpr):
    """Gradients of z and of the candidate before their functions, and of h past them."""
    if FORM == "gru_old":
        return dh * (old - new) * z * (1.0 - z), dh * (1.0 - z) * (1.0 - new * new), dh * z
    else:
        return dh * (new - old) * z * (1.0 - z), dh * z * (1.0 - new * new), dh * (1.0 - z)


@gluon.jit
def retreat_memory(dc, k, c, FORM: gl.constexpr):
    """Gradients of the blocks of i, f and g of an LSTM from that of c', which was made from `c`."""
    d2 = dc * k[0] * (1.0 - k[2] * k[2])
    if FORM == "coupled":
        d0 = dc * (k[2] - c) * k[0] * (1.0 - k[0])
        return d0, gl.zeros_like(d0), d2
    else:
        return dc * k[2] * k[0] * (1.0 - k[0]), dc * c * k[1] * (1.0 - k[1]), d2


@gluon.jit
def advance(a, c, p, FORM: gl.constexpr, PEEPHOLE: gl.constexpr):
    """`kept`, c', h'; `p`: peepholes of input, forget and output."""
    a0, a1, a2, a3 = a
    p0, p1, p3 = p
    if FORM == "lstm" or FORM == "coupled":
        if PEEPHOLE:
            a0 += p0 * c
        i = sigmoid(a0)
        if FORM == "coupled":
            f = 1.0 - i
        else:
            if PEEPHOLE:
                a1 += p1 * c
            f = sigmoid(a1)
        g = tanh(a2)
        c = f * c + i * g
        if PEEPHOLE:
            a3 += p3 * c
        o = sigmoid(a3)
        return (i, f, g, o), c, o * tanh(c)
    elif FORM == "gru_old" or FORM == "gru_new":
        r = sigmoid(a0)
        z = sigmoid(a1)
        n = tanh(a2 + r * a3)
        c = update(c, n, z, FORM)
        return (r, z, n, a3), c, c
    else:
        y = activation(a0, FORM)
        return (y, y, y, y), y, y


@gluon.jit
def retreat(dh, dc, k, c, new_c, p, FORM: gl.constexpr, PEEPHOLE: gl.constexpr):
    """Gradients of the four blocks and of c, from those of h' and c', which were made from `c`; `k`: what is kept."""
    k0, k1, k2, k3 = k
    p0, p1, p3 = p
    if FORM == "lstm" or FORM == "coupled":
        shown = tanh(new_c)
        d3 = dh * shown * k3 * (1.0 - k3)
        dc += dh * k3 * (1.0 - shown * shown)
        if PEEPHOLE:
            dc += d3 * p3
        d0, d1, d2 = retreat_memory(dc, k, c, FORM)
        dc = dc * k1
        if PEEPHOLE:
            dc += d0 * p0 + d1 * p1
        return (d0, d1, d2, d3), dc
    elif FORM == "gru_old" or FORM == "gru_new":
        dc += dh
        d1, d2, dc = retreat_update(dc, c, k2, k1, FORM)
        return (d2 * k3 * k0 * (1.0 - k0), d1, d2, d2 * k0), dc
    else:
        d0 = (dc + dh) * slope(k0, FORM)
        none = gl.zeros_like(d0)
        return (d0, none, none, none), none
