/* DCA with technique SS on a binary heap of (time, PE): the least that a simulation of a loop can do.

   It gives the finish times of tools/bench/loops.py --rival, to the bit, and keeps no other statistics. */
#include <math.h>
#include <stdint.h>

typedef struct {
    double time;
    int64_t pe;
} Event;

/* Put the event at the top of the heap where it belongs; of equal times the lower PE goes first. */
static void sift(Event *heap, int64_t p)
{
    Event moved = heap[0];
    int64_t hole = 0, child;
    while ((child = 2 * hole + 1) < p) {
        if (child + 1 < p && (heap[child + 1].time < heap[child].time ||
                              (heap[child + 1].time == heap[child].time && heap[child + 1].pe < heap[child].pe)))
            child++;
        if (moved.time < heap[child].time || (moved.time == heap[child].time && moved.pe < heap[child].pe))
            break;
        heap[hole] = heap[child];
        hole = child;
    }
    heap[hole] = moved;
}

/* heap: of p events at the arrivals of the first requests, in order. claims: p zeros. Times in s. */
int64_t simulate(const double *prefix, int64_t n, int64_t p, const double *speed, const double *latency,
                 const double *thinking, double atomic, double assignment, Event *heap, int8_t *claims,
                 double *finish)
{
    double free = 0.0;
    int64_t position = 0;
    while (heap[0].time < INFINITY) {
        int64_t pe = heap[0].pe;
        double arrival = heap[0].time, following;
        do {
            free = (arrival > free ? arrival : free) + atomic;
            claims[pe] ^= 1;
            if (claims[pe]) {
                following = free + thinking[pe];
            } else if (position == n) {
                free += assignment;
                following = INFINITY;
            } else {
                free += assignment;
                finish[pe] = free + latency[pe] + (prefix[position + 1] - prefix[position]) / speed[pe];
                following = finish[pe] + latency[pe];
                position++;
            }
        } while (following == arrival);
        heap[0].time = following;
        sift(heap, p);
    }
    return position;
}
