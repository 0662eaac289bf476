"""The recursions of PDLT as they are printed (in their checked form), for two inputs: an oracle.

Inverse kernels, insertions of z z - K and a tensor Gauss-Hermite rule, layer by layer: nothing here is
shared with the package, which uses neither inverses nor insertions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np

NODES = 80


@dataclass(frozen=True)
class Layer:
    """K, V, G^{1} of one layer."""

    K: np.ndarray
    V: np.ndarray
    G1: np.ndarray


def next_layer(
    here: Layer, sigma: Callable[[np.ndarray], np.ndarray], C_b: float, C_W: float, r: float
) -> Layer:
    """PDLT (4.118), (4.119) and (4.115), with r = n_l / n_{l-1}."""
    z, p = _nodes(here.K)
    K = here.K
    s = sigma(z)
    ss = s[:, None] * s[None]
    zz = z[:, None] * z[None] - K[..., None]
    mean = np.einsum("abm,m->ab", ss, p)
    inverse = np.linalg.inv(K)
    ssz = np.einsum("abm,cdm,m->abcd", ss, zz, p)
    raised = np.einsum("ai,bj,ck,dl,ijkl->abcd", *(inverse,) * 4, here.V)
    cov = np.einsum("abm,cdm,m->abcd", ss, ss, p) - np.multiply.outer(mean, mean)
    V = C_W**2 * (cov + 0.25 * r * np.einsum("ijkl,abij,cdkl->abcd", raised, ssz, ssz))
    G1 = _beyond(ss, here, z, p)
    return Layer(C_b + C_W * mean, V, C_W * r * G1)


def _nodes(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(NODES)
    u = np.stack(np.meshgrid(x, x, indexing="ij")).reshape(2, -1)
    return np.linalg.cholesky(K) @ u, np.outer(w, w).ravel() / w.sum() ** 2


def _beyond(pair: np.ndarray, here: Layer, z: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The 1/n part of the expectation of a function of two samples, PDLT (4.113)."""
    K, inverse = here.K, np.linalg.inv(here.K)
    zz = z[:, None] * z[None] - K[..., None]
    mean, first = np.einsum("abm,m->ab", pair, p), np.einsum("abm,cdm,m->abcd", pair, zz, p)
    raised = np.einsum("ai,bj,ck,dl,ijkl->abcd", *(inverse,) * 4, here.V)
    second = np.einsum("abm,ijm,klm,m->abijkl", pair, zz, zz, p)
    third = -2 * (first + np.multiply.outer(mean, K)) + np.multiply.outer(mean, K)
    return (
        0.5 * np.einsum("ik,jl,kl,abij->ab", inverse, inverse, here.G1, first)
        + 0.125 * np.einsum("ijkl,abijkl->ab", raised, second)
        + 0.25 * np.einsum("ikjl,kl,abij->ab", raised, K, third)
    )


def next_ntk_nlo(
    here: Layer,
    old: Tensors,
    nlo: np.ndarray,
    derivatives: Sequence[Callable[[np.ndarray], np.ndarray]],
    rates: tuple[float, float, float, float],
) -> np.ndarray:
    """The 1/n part of (8.59), the fluctuation of the NTK by (8.71); `rates` as in `next_tensors`."""
    C, _, lam, r = rates
    z, p = _nodes(here.K)
    inverse = np.linalg.inv(here.K)
    ss, pp = (f[:, None] * f[None] for f in (derivatives[0](z), derivatives[1](z)))
    bent = np.einsum("abm,ijm,m->abij", pp, z[:, None] * z[None] - here.K[..., None], p)
    bent = np.einsum("abij,ik,jl->abkl", bent, inverse, inverse)
    slopes = (
        np.einsum("abm,m->ab", pp, p) * nlo
        + old.H * _beyond(pp, here, z, p)
        + 0.5 * np.einsum("abkl,klab->ab", bent, old.D)
        + np.einsum("abkl,kalb->ab", bent, old.F)
    )
    return r * (lam * _beyond(ss, here, z, p) + C * slopes)


@dataclass(frozen=True)
class Tensors:
    """The NTK of one layer and every tensor of its fluctuations, each in its printed index order."""

    H: np.ndarray
    D: np.ndarray
    F: np.ndarray
    A: np.ndarray
    B: np.ndarray
    P: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    S: np.ndarray
    T: np.ndarray
    U: np.ndarray


def no_tensors(H: np.ndarray) -> Tensors:
    """Layer 1: the NTK does not fluctuate."""
    return Tensors(H, *(np.zeros((2,) * 4),) * 10)


def next_tensors(
    here: Layer,
    old: Tensors,
    derivatives: Sequence[Callable[[np.ndarray], np.ndarray]],
    rates: tuple[float, float, float, float],
) -> Tensors:
    """PDLT (8.63), (8.77), (8.79), (8.89), (8.97), (11.49), (11.52), (∞.177), (∞.179)-(∞.181).

    `rates` are C_W, lambda_b, lambda_W of the next layer and n_l / n_{l-1}.
    """
    C, lambda_b, lam, r = rates
    z, p = _nodes(here.K)
    s, d, dd, ddd = (f(z) for f in derivatives)
    inv = np.linalg.inv(here.K)
    zz = z[:, None] * z[None] - here.K[..., None]
    H, D, F, A, B, P, Q, R, S, T, U = (getattr(old, f.name) for f in fields(old))

    def e(text: str, *arrays: np.ndarray) -> np.ndarray:
        return np.einsum(text, *arrays, optimize=True)

    def four(f: np.ndarray, g: np.ndarray, h: np.ndarray, k: np.ndarray) -> np.ndarray:
        return e("am,bm,cm,dm,m->abcd", f, g, h, k, p)

    def two(f: np.ndarray, g: np.ndarray) -> np.ndarray:
        return e("am,bm,m->ab", f, g, p)

    ss, pp = s[:, None] * s[None], d[:, None] * d[None]
    Om = lam * ss + C * H[..., None] * pp
    Epp = two(d, d)
    ssz, Omz = (e("abm,ijm,m->abij", f, zz, p) for f in (ss, Om))
    raised = e("ai,bj,ck,dl,ijkl->abcd", inv, inv, inv, inv, here.V)
    lifted = e("ei,fj,ijcd->efcd", inv, inv, D)
    mean_ss, mean_Om = e("abm,m->ab", ss, p), e("abm,m->ab", Om, p)
    cov = e("abm,cdm,m->abcd", ss, Om, p) - np.multiply.outer(mean_ss, mean_Om)
    D_new = (
        C * cov
        + r * C / 4 * e("ijkl,abij,cdkl->abcd", raised, ssz, Omz)
        + r * C**2 / 2 * e("abef,efcd,cd->abcd", ssz, lifted, Epp)
    )
    mixed = e("abef,efcd,cd->abcd", Omz, lifted, Epp)
    A_new = (
        e("abm,cdm,m->abcd", Om, Om, p)
        - np.multiply.outer(mean_Om, mean_Om)
        + r / 4 * e("ijkl,abij,cdkl->abcd", raised, Omz, Omz)
        + r * C**2 * e("ab,cd,abcd->abcd", Epp, Epp, A)
        + r * C / 2 * (mixed + mixed.transpose(2, 3, 0, 1))
    )

    def with_z(f: np.ndarray, g: np.ndarray) -> np.ndarray:
        """<f_a g_b z_c> with the leg of z raised."""
        return e("am,bm,im,m,ic->abc", f, g, z, p, inv)

    spz = with_z(s, d)
    F_new = C**2 * (
        e("abcd,cd->acbd", four(s, s, d, d), H) + r * e("ace,bdf,ecfd->acbd", spz, spz, F)
    )
    B_new = C**2 * (
        e("abcd,ab,cd->acbd", four(d, d, d, d), H, H) + r * e("ac,bd,acbd->acbd", Epp, Epp, B)
    )
    curved, sdd = four(dd, d, d, s), two(dd, s)
    P_new = C**2 * (
        e("abcd,ab,ac->abcd", curved, H, H)
        + r * e("bc,ad,abca->abcd", Epp, sdd, P)
        + r * e("bc,ad,abcd->abcd", Epp, Epp, P)
        + r * e("bc,ad,aabc->abcd", Epp, sdd, B)
    )
    ddz, dsz = with_z(dd, d), with_z(d, s)
    Q_new = (
        C**2 * e("abcd,ab,ac->abcd", curved, H, H)
        + lam / C * e("badc->abcd", F_new)
        + r * C**2 * e("ab,cd,abcc->abcd", Epp, sdd, Q)
        + r * C**2 * e("ab,cd,abcd->abcd", Epp, Epp, Q)
        + r * C**2 * e("ab,abe,cdf,eafc->abcd", H, ddz, dsz, F)
    )
    tdd, twist = two(dd, dd), two(ddd, d)
    R_new = (
        lam * C * e("abcd,ac,ad->abcd", four(dd, s, d, d), H, H)
        + r * C * lam * e("cd,ab,aacd->abcd", Epp, sdd, B)
        + r * C * lam * e("cd,ab,acda->abcd", Epp, sdd, P)
        + r * C * lam * e("cd,ab,acdb->abcd", Epp, Epp, P)
        + C**2 * e("abcd,ab,ac,ad->abcd", four(ddd, d, d, d), H, H, H)
        + r * C**2 * e("cd,ab,aacd,ab->abcd", Epp, twist, B, H)
        + r * C**2 * e("cd,ab,acda,ab->abcd", Epp, twist, P, H)
        + r * C**2 * e("cd,ab,acdb,ab->abcd", Epp, tdd, P, H)
        + r * C**2 * e("cd,ab,abcd->abcd", Epp, Epp, R)
    )
    kappa = e("abcd,ab,ac,bd->abcd", four(dd, dd, d, d), H, H, H)
    S_new = (
        C * lam * e("abcd,ac,bd->abcd", four(d, d, d, d), H, H)
        + r * C * lam * e("cd,ab,abcd->abcd", Epp, Epp, B)
        + r * C**2 * e("cd,ab,ab,abcd->abcd", Epp, H, tdd, B)
        + C**2 * kappa
        + r * C**2 * e("ab,cd,abcd->abcd", Epp, Epp, S)
    )
    # T_1342 with 1, 2, 3, 4 = a, b, c, d; what is printed twice is added with the legs exchanged.
    ff = e("acx,bdy,xayb->acdb", dsz, dsz, F)
    fd = e("acx,bdy,xayb,bd->acdb", dsz, ddz, F, H)
    half = (
        C * lam * e("abcd,ab,bd->acdb", four(d, dd, s, d), H, H)
        + r * C * lam * fd
        + r * C * lam * e("bd,ac,bdaa->acdb", Epp, sdd, Q)
        + r * C * lam * e("bd,ac,bdac->acdb", Epp, Epp, Q)
        + r * C**2 * e("ac,bd,ac,bdaa->acdb", H, Epp, twist, Q)
        + r * C**2 * e("ac,bd,ac,bdac->acdb", H, Epp, tdd, Q)
    )
    T_new = (
        lam**2 * e("abcd,ab->acdb", four(d, d, s, s), H)
        + r * lam**2 * ff
        + half
        + half.transpose(3, 2, 1, 0)
        + C**2 * e("abcd->acdb", kappa)
        + r * C**2 * e("ac,bd,acx,bdy,xayb->acdb", H, H, ddz, ddz, F)
        + r * C**2 * e("ac,bd,acdb->acdb", Epp, Epp, T)
    )
    U_new = C**2 * (e("abcd->adbc", kappa) + r * e("ad,bc,adbc->adbc", Epp, Epp, U))
    H_new = lambda_b + lam * mean_ss + C * Epp * H
    return Tensors(H_new, D_new, F_new, A_new, B_new, P_new, Q_new, R_new, S_new, T_new, U_new)
