// Combiners: how a block's replica becomes part of the model, which has moved by d since the block began.
//
//   chain          w ← S + D d + (M A − D A) Aᵀ d
//   mean           w ← mean of the replicas of a round
//   AdaGrad mean   w_i ← Σ_p G_pi w_pi / Σ_p G_pi
//
// S is where the block ended, M the derivative of its steps in where it began (the paper's model combiner), D the part
// of M that the penalty has on each weight alone: Π(1 − step × l2) for L2 (the paper takes off the identity, which is
// the case l2 = 0), a 2×2 matrix on (weight, penalty received) for L1, 0 or 1 on each half for the Lasso. D is known
// exactly; the rest has the rank of the block and is what the projection estimates. With A = I the merge is exact; with
// the single column A = d it is M d itself; with no column at all it adds movements up.
//
// All of the state is merged: weights, intercepts, what L1 has been paid, the halves, the sums of iterates.
#pragma once

#include "symsgd/replica.hpp"

namespace symsgd {

// Merges `replica`, whose block has ended and whose movement has been measured, into `global`. `averaged` is how many
// of the block's iterates are averaged.
template <class V>
void merge_chain(Replica<V>& replica, ModelView<V> global, const Kernels& kernels, double averaged);

// M of one block and class as a matrix, intercept last. For OLS it does not depend on the weights: with a constant step
// size and a fixed order it is the same in every pass.
template <class V>
using KeptCombiner = std::vector<V>;

// Takes the combiners of a replica whose columns began as the identity, one a class; merges one without columns by
// them.
template <class V>
void keep_combiner(Replica<V>& replica, KeptCombiner<V>* kept);
template <class V>
void merge_kept(Replica<V>& replica, ModelView<V> global, const KeptCombiner<V>* kept);

// Makes `global` the mean of the replicas of a round, all of which have ended.
template <class V>
void merge_mean(const std::vector<Replica<V>*>& replicas, ModelView<V> global);

// The same for the mean weighted by what AdaGrad has gathered; replicas are of the whole model.
template <class V>
void merge_adagrad(const std::vector<Replica<V>*>& replicas, ModelView<V> global);

}  // namespace symsgd
