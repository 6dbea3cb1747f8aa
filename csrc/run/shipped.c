/* A file is a header, items by ascending hash, and the data they point to: a kernel's bytes, then its object. Files are mapped once, checked
 * once, and stay mapped. The build's name, of its sources and its compiler of kernels, is in the header: code of another generator would
 * be called as if it were this one's. */
#define _GNU_SOURCE
#include "run/shipped.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NLEVELS = CPU_NEON + 1, ALIGN = 16 };

typedef struct { char magic[8], build[64]; uint64_t count; } Header;
typedef struct { uint64_t hash, at, len, object_len; } Item;       /* at: of the kernel's bytes, in the file; the object follows, aligned */
typedef struct { Item item; char *data; } Kept;
typedef struct { const char *at; size_t size; bool asked; } File;

static const char magic[8] = "pyxlak1";
/* The build's name, made by setup.py; absent from programs that are linked otherwise: nothing is shipped with them. */
extern const char pyxla_build[64] __attribute__((weak));

static struct {
    pthread_mutex_t lock;
    char *folder;
    File file[NLEVELS];
    bool recording, lost;                         /* lost: there was no memory to keep something */
    Kept *kept;
    size_t count, room;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t aligned(uint64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- reading; the lock is held ---- */

static const Item *items(const File *f) { return (const Item *)(f->at + sizeof(Header)); }

/* Whether the file is whole and of this build. */
static bool belongs(const char *at, size_t size)
{
    const Header *h = (const Header *)at;
    if (size < sizeof *h || memcmp(h->magic, magic, sizeof magic) || memcmp(h->build, pyxla_build, sizeof h->build)) return false;
    if (h->count > (size - sizeof *h) / sizeof(Item)) return false;
    const Item *item = (const Item *)(at + sizeof *h);
    for (uint64_t i = 0; i < h->count; i++) {
        if (item[i].at > size || item[i].len > size || item[i].object_len > size) return false;
        if (aligned(item[i].at + item[i].len) + item[i].object_len > size || (i && item[i].hash < item[i - 1].hash)) return false;
    }
    return true;
}

static void map_file(File *f, const char *path)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *at = fstat(fd, &s) == 0 && s.st_size > 0 ? mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (at == MAP_FAILED) return;
    if (belongs(at, (size_t)s.st_size)) *f = (File){at, (size_t)s.st_size, true};
    else munmap(at, (size_t)s.st_size);
}

static const File *file_of(CpuLevel level)
{
    File *f = &all.file[level];
    const char *off = getenv("PYXLA_SHIPPED");
    char path[4096];
    if (f->asked || !all.folder) return f;
    f->asked = true;
    if (!pyxla_build || (off && strcmp(off, "0") == 0)) return f;
    int n = snprintf(path, sizeof path, "%s_kernels_%s.bin", all.folder, cpu_level_name(level));
    if (n > 0 && (size_t)n < sizeof path) map_file(f, path);
    return f;
}

static const void *find_in(const File *f, const void *bytes, size_t len, uint64_t hash, size_t *object_len)
{
    if (!f->at) return NULL;
    const Item *item = items(f);
    uint64_t low = 0, high = ((const Header *)f->at)->count, count = high;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (item[middle].hash < hash) low = middle + 1;
        else high = middle;
    }
    for (; low < count && item[low].hash == hash; low++) {
        if (item[low].len != len || memcmp(f->at + item[low].at, bytes, len) != 0) continue;
        *object_len = item[low].object_len;
        return f->at + aligned(item[low].at + len);
    }
    return NULL;
}

void shipped_folder(const char *path)
{
    pthread_mutex_lock(&all.lock);
    free(all.folder);
    all.folder = strdup(path);
    pthread_mutex_unlock(&all.lock);
}

const void *shipped_find(const void *bytes, size_t len, uint64_t hash, CpuLevel level, size_t *object_len)
{
    pthread_mutex_lock(&all.lock);
    const void *object = all.recording ? NULL : find_in(file_of(level), bytes, len, hash, object_len);
    pthread_mutex_unlock(&all.lock);
    return object;
}

/* ---- making a file ---- */

void shipped_record(void)
{
    pthread_mutex_lock(&all.lock);
    all.recording = true;
    pthread_mutex_unlock(&all.lock);
}

bool shipped_recording(void)
{
    pthread_mutex_lock(&all.lock);
    bool on = all.recording;
    pthread_mutex_unlock(&all.lock);
    return on;
}

/* Room for one more; the lock is held. */
static bool grow(void)
{
    if (all.count < all.room) return true;
    size_t room = all.room ? 2 * all.room : 64;
    Kept *kept = realloc(all.kept, room * sizeof *kept);
    if (!kept) return false;
    all.kept = kept;
    all.room = room;
    return true;
}

void shipped_keep(const void *bytes, size_t len, uint64_t hash, const void *object, size_t object_len)
{
    char *data = malloc(aligned(len) + object_len);
    if (data) {
        memset(data, 0, aligned(len));
        memcpy(data, bytes, len);
        memcpy(data + aligned(len), object, object_len);
    }
    pthread_mutex_lock(&all.lock);
    bool ok = data && grow();
    if (ok) all.kept[all.count++] = (Kept){{.hash = hash, .len = len, .object_len = object_len}, data};
    else all.lost = true;
    pthread_mutex_unlock(&all.lock);
    if (!ok) free(data);
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const Kept *)a)->item.hash, y = ((const Kept *)b)->item.hash;
    return (x > y) - (x < y);
}

static bool write_all(FILE *f)
{
    static const char zeros[ALIGN];
    Header h = {.count = all.count};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.build, pyxla_build, sizeof h.build);
    qsort(all.kept, all.count, sizeof *all.kept, by_hash);
    uint64_t at = aligned(sizeof h + all.count * sizeof(Item)), start = at - sizeof h - all.count * sizeof(Item);
    bool ok = fwrite(&h, sizeof h, 1, f) == 1;
    for (size_t i = 0; ok && i < all.count; i++) {
        Item *item = &all.kept[i].item;
        item->at = at;
        at += aligned(aligned(item->len) + item->object_len);
        ok = fwrite(item, sizeof *item, 1, f) == 1;
    }
    ok = ok && fwrite(zeros, 1, start, f) == start;
    for (size_t i = 0; ok && i < all.count; i++) {
        size_t n = aligned(all.kept[i].item.len) + all.kept[i].item.object_len, pad = aligned(n) - n;
        ok = fwrite(all.kept[i].data, 1, n, f) == n && fwrite(zeros, 1, pad, f) == pad;
    }
    return ok;
}

bool shipped_write(const char *path, Err *err)
{
    if (!pyxla_build) return err_set(err, ERR_INTERNAL, "this build has no name");
    pthread_mutex_lock(&all.lock);
    FILE *f = all.lost ? NULL : fopen(path, "wbe");
    bool ok = f && write_all(f);
    ok = f && fclose(f) == 0 && ok;
    pthread_mutex_unlock(&all.lock);
    return ok || err_set(err, ERR_INTERNAL, "cannot write %s: %s", path, all.lost ? "no memory" : strerror(errno));
}
