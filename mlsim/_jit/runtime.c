/* The runtime of the kernel library: what the machine code of kernels calls besides the C library.

   Memory of arrays follows the layout and the rules of Numba's runtime (numba/core/runtime/nrt.h): code that Numba
   compiles reads and counts references of a MemInfo itself, and calls these functions to allocate and to destroy.
   The library has no use for Python: it neither includes its headers nor links to it. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Destructor)(void *data, size_t size, void *info);

typedef struct {
    size_t references;
    Destructor destroy;
    void *info;
    void *data;
    size_t size;
    void *allocator; /* of Numba's; kernels have none */
} MemInfo;

void *NRT_Allocate(size_t size) { return malloc(size); }

void NRT_Free(void *memory) { free(memory); }

static void begin(MemInfo *owner, void *data, size_t size, Destructor destroy, void *info) {
    owner->references = 1; /* its maker's */
    owner->destroy = destroy;
    owner->info = info;
    owner->data = data;
    owner->size = size;
    owner->allocator = NULL;
}

/* Data behind their owner, in one allocation; NULL where there is no memory, which the kernel raises. */
MemInfo *NRT_MemInfo_alloc_aligned(size_t size, unsigned alignment) {
    size_t room = sizeof(MemInfo) + 2 * (size_t)alignment;
    if (size > SIZE_MAX - room)
        return NULL;
    MemInfo *owner = malloc(size + room);
    if (owner == NULL)
        return NULL;
    uintptr_t data = (uintptr_t)(owner + 1);
    if (alignment && data % alignment)
        data += alignment - data % alignment;
    begin(owner, (void *)data, size, NULL, NULL);
    return owner;
}

MemInfo *NRT_MemInfo_alloc(size_t size) { return NRT_MemInfo_alloc_aligned(size, 0); }

void NRT_MemInfo_call_dtor(MemInfo *owner) {
    if (owner->destroy)
        owner->destroy(owner->data, owner->size, owner->info);
    free(owner);
}

void NRT_MemInfo_release(MemInfo *owner) {
    if (__atomic_sub_fetch(&owner->references, 1, __ATOMIC_ACQ_REL) == 0)
        NRT_MemInfo_call_dtor(owner);
}

/* Memory that grows: lists. Its info is what destroys the items first. */
static void destroy_growing(void *data, size_t size, void *info) {
    if (info)
        ((Destructor)info)(data, size, NULL);
    free(data);
}

MemInfo *NRT_MemInfo_new_varsize_dtor(size_t size, Destructor destroy_items) {
    MemInfo *owner = malloc(sizeof(MemInfo));
    void *data = malloc(size);
    if (owner == NULL || data == NULL) {
        free(owner);
        free(data);
        return NULL;
    }
    begin(owner, data, size, destroy_growing, (void *)destroy_items);
    return owner;
}

MemInfo *NRT_MemInfo_new_varsize(size_t size) { return NRT_MemInfo_new_varsize_dtor(size, NULL); }

void *NRT_MemInfo_varsize_realloc(MemInfo *owner, size_t size) {
    void *data = realloc(owner->data, size);
    if (data != NULL) {
        owner->data = data;
        owner->size = size;
    }
    return data;
}

double numba_frexp(double value, int *exponent) { return frexp(value, exponent); }

double numba_ldexp(double value, int exponent) { return ldexp(value, exponent); }

double numba_nextafter(double value, double towards) { return nextafter(value, towards); }

/* Strides of an array of another shape over the same elements; 0 where only a copy has that shape.
   Kernels reshape arrays in order of C only: without axes of length 1 each stride is the one after it times the
   length there, so the new strides follow from the item's size alone. */
int numba_attempt_nocopy_reshape(intptr_t axes, const intptr_t *lengths, const intptr_t *strides, intptr_t new_axes,
                                 const intptr_t *new_lengths, intptr_t *new_strides, intptr_t item, int fortran) {
    intptr_t items = 1, new_items = 1, expected = item;
    for (intptr_t axis = 0; axis < axes; axis++)
        items *= lengths[axis];
    for (intptr_t axis = 0; axis < new_axes; axis++)
        new_items *= new_lengths[axis];
    if (fortran || items != new_items)
        return 0;
    for (intptr_t axis = axes - 1; axis >= 0 && items; axis--) {
        if (lengths[axis] != 1 && strides[axis] != expected)
            return 0;
        expected *= lengths[axis];
    }
    expected = item;
    for (intptr_t axis = new_axes - 1; axis >= 0; axis--) {
        new_strides[axis] = expected;
        expected *= new_lengths[axis] ? new_lengths[axis] : 1;
    }
    return 1;
}

/* Numba formats messages with run-time values in functions that only its wrappers for Python call. The code of a few
   kernels refers to these functions all the same, and they refer to Python; nothing in the library calls them. */
static _Noreturn void unreachable(void) { abort(); }
void PyErr_SetString(void) { unreachable(); }
void PyObject_Hash(void) { unreachable(); }
void PyTuple_Pack(void) { unreachable(); }
void PyUnicode_FromKindAndData(void) { unreachable(); }
void *PyExc_RuntimeError;

/* Which level of x86-64 this processor has, 2, 3 or 0 for less; kernels are compiled for each. */
int mlsim_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
        __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
        __builtin_cpu_supports("movbe"))
        return 3;
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3"))
        return 2;
    return 0;
#else
    return 1; /* one level for all */
#endif
}
