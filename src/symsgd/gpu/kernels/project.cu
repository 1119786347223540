// q = Vᵀx of sparse rows: a warp a row. `place_of` says which line of V a feature has, or −1.
extern "C" __global__ void project_rows(const Real* values, const int* indices, const long long* starts,
                                        const int* place_of, const Real* directions, int rank, long long n_rows,
                                        Real* along) {
    const long long row = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / warp_size;
    if (row >= n_rows) return;
    for (int first = 0; first < rank; first += warp_size) {
        const int k = first + lane_id();
        Real sum = 0;
        for (long long i = starts[row]; i < starts[row + 1]; ++i) {
            const int place = place_of[indices[i]];
            if (place >= 0 && k < rank) sum += values[i] * directions[static_cast<long long>(place) * rank + k];
        }
        if (k < rank) along[row * rank + k] = sum;
    }
}
