/* A sealed memfd and its mapping. */
#include "store/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/store_serve.h"

#define HUGE_PAGE_LEN ((uint64_t)2 << 20)
#define MEMFD_NAME_LEN_MAX 200

static mooncake_err refuse(const char *what, const char *name, uint64_t len, bool huge_pages)
{
    int error = errno;
    mooncake_err err =
        error == ENOMEM || error == ENOSPC ? MOONCAKE_ENOMEM : mc_err_from_errno(error);

    return mc_err_set(err, "segment %s: %s of %llu bytes failed: %s%s", name, what,
                      (unsigned long long)len, strerror(error),
                      huge_pages && err == MOONCAKE_ENOMEM
                          ? "; fewer huge pages are free than that takes: vm.nr_hugepages reserves "
                            "them, or leave out --huge_pages"
                          : "");
}

/* What len is rounded up to; 0 if that cannot be a file's length here. */
static uint64_t rounded_len(uint64_t len, uint64_t page)
{
    uint64_t rounded = (len + page - 1) / page * page;

    return len <= (uint64_t)INT64_MAX - page ? rounded : 0;
}

mooncake_err mc_segment_open(const char *name, uint64_t len, bool huge_pages,
                             struct mc_segment *out)
{
    uint64_t page = huge_pages ? HUGE_PAGE_LEN : (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t whole = rounded_len(len, page);
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge_pages ? MFD_HUGETLB : 0u);
    char label[MEMFD_NAME_LEN_MAX + 1];
    mooncake_err err = MOONCAKE_OK;
    void *base;
    int fd;

    if (len < MC_SEGMENT_LEN_MIN || whole == 0) {
        return mc_err_set(MOONCAKE_EINVAL, "segment %s: %llu bytes; allowed are %u and more", name,
                          (unsigned long long)len, MC_SEGMENT_LEN_MIN);
    }
    (void)snprintf(label, sizeof(label), "mooncake:%s", name);
    fd = memfd_create(label, flags);
    if (fd < 0) {
        return refuse("memfd", name, whole, huge_pages);
    }
    if (ftruncate(fd, (off_t)whole) != 0) {
        err = refuse("memfd", name, whole, huge_pages);
        goto close_fd;
    }
    /* A peer that maps it must never see it shrink: that would be a SIGBUS over there. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        err = refuse("sealing", name, whole, huge_pages);
        goto close_fd;
    }
    /* Huge pages are reserved here, so that a lack of them is an error now and no SIGBUS later. */
    base = mmap(NULL, (size_t)whole, PROT_READ | PROT_WRITE,
                MAP_SHARED | (huge_pages ? 0 : MAP_NORESERVE), fd, 0);
    if (base == MAP_FAILED) {
        err = refuse("mapping", name, whole, huge_pages);
        goto close_fd;
    }
    /* Advice only: other people's values are of no use in a core dump or in a forked child, and
     * large pages cost less to walk. */
    (void)madvise(base, (size_t)whole, MADV_DONTDUMP);
    (void)madvise(base, (size_t)whole, MADV_DONTFORK);
    if (!huge_pages) {
        (void)madvise(base, (size_t)whole, MADV_HUGEPAGE);
    }
    out->base = base;
    out->len = whole;
    out->memfd = fd;
    return MOONCAKE_OK;

close_fd:
    (void)close(fd);
    return err;
}

void mc_segment_close(struct mc_segment *segment)
{
    if (segment->base != NULL) {
        (void)munmap(segment->base, (size_t)segment->len);
    }
    if (segment->memfd >= 0) {
        (void)close(segment->memfd);
    }
    segment->base = NULL;
    segment->len = 0;
    segment->memfd = -1;
}
