/* The loader reads an ELF64 object that it does not trust: every offset and size is checked before it is used, so that a
 * truncated or damaged file of the disk cache is an error.
 *
 * Code lives in slabs of private memory, whole pages per object: written, then made read-only and executable, never both. A private slab
 * is copied on write, so a child of fork may go on running what its parent frees; the child takes new slabs for code of its own. */
#include "run/code.h"
#include <elf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLAB_PAGES = 256, MOST_SECTIONS = 4096 };
#define MOST_BYTES ((uint64_t)256 << 20)
#define NOWHERE UINT64_MAX

/* ---- slabs ---- */

typedef struct Slab Slab;
struct Slab {
    Slab *next;
    char *at;
    size_t pages;
    size_t live;                       /* pages used */
    unsigned epoch;                    /* forks before it was made */
    bool used[SLAB_PAGES];             /* a slab of more pages holds one object */
};

struct Code {
    atomic_int refs;
    KernelFn entry;
    Slab *slab;
    char *at;
    size_t pages, bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Slab *slabs;
static unsigned epoch;
static atomic_size_t total;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Another thread may have held the lock: the child leaves the slabs as they are and begins anew. */
static void fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
    slabs = NULL;
    epoch++;
}

static void init(void) { pthread_atfork(NULL, NULL, fork_child); }

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* The first of `pages` free pages in a row, or -1. */
static long slab_find(const Slab *s, size_t pages)
{
    size_t run = 0;
    if (s->pages != SLAB_PAGES || s->pages - s->live < pages) return -1;
    for (size_t k = 0; k < SLAB_PAGES; k++) {
        run = s->used[k] ? 0 : run + 1;
        if (run == pages) return (long)(k + 1 - pages);
    }
    return -1;
}

static Slab *slab_new(size_t pages)
{
    Slab *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->pages = pages > SLAB_PAGES ? pages : SLAB_PAGES;
    s->epoch = epoch;
    s->at = mmap(NULL, s->pages * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->at == MAP_FAILED) {
        free(s);
        return NULL;
    }
    s->next = slabs;
    return slabs = s;
}

static void slab_free(Slab *s)
{
    for (Slab **at = &slabs; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    munmap(s->at, s->pages * page_bytes());
    free(s);
}

/* Pages that may be written, for one object; the slab in *out. */
static char *pages_take(size_t pages, Slab **out)
{
    long at = -1;
    Slab *s;
    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    for (s = slabs; s && (at = slab_find(s, pages)) < 0;) s = s->next;
    if (!s && (s = slab_new(pages))) at = 0;
    if (s) {
        if (pages <= SLAB_PAGES) memset(s->used + at, true, pages);
        s->live += pages;
    }
    pthread_mutex_unlock(&lock);
    *out = s;
    return s ? s->at + (size_t)at * page_bytes() : NULL;
}

/* Gives pages back, writable again; an empty slab goes unless it is the only one. */
static void pages_give(Slab *s, char *at, size_t pages)
{
    bool writable = mprotect(at, pages * page_bytes(), PROT_READ | PROT_WRITE) == 0;
    pthread_mutex_lock(&lock);
    if (s->epoch == epoch && writable) {
        if (pages <= SLAB_PAGES) memset(s->used + (size_t)(at - s->at) / page_bytes(), false, pages);
        s->live -= pages;
        if (!s->live && (slabs->next || s->pages > SLAB_PAGES)) slab_free(s);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- reading the object ---- */

typedef struct {
    const uint8_t *at;
    size_t len;
    const char *name;
    Err *err;
    Elf64_Ehdr header;
    Elf64_Shdr *sections;              /* header.e_shnum copies */
    uint64_t *offset;                  /* where each section is placed, or NOWHERE */
    uint64_t bytes, readonly;          /* of the image: all, and the part that becomes executable */
    uint64_t got, got_len;             /* table of addresses for GOT relocations: a slot per use */
    char *image;
} Object;

static bool bad(Object *o, const char *what) { return err_set(o->err, ERR_INTERNAL, "object code of %s: %s", o->name, what); }

/* Whether `bytes` bytes at `offset` lie in `size`. */
static bool within(uint64_t offset, uint64_t bytes, uint64_t size) { return offset <= size && bytes <= size - offset; }

/* A copy of item `index` of a section's table; the file may have it at any alignment. */
static bool read_item(const Object *o, const Elf64_Shdr *s, uint64_t index, void *out, size_t item)
{
    if (s->sh_type == SHT_NOBITS || index >= s->sh_size / item || !within(s->sh_offset, s->sh_size, o->len)) return false;
    memcpy(out, o->at + s->sh_offset + index * item, item);
    return true;
}

/* The string at an offset of string table `section`, "?" if there is none. */
static const char *read_name(const Object *o, uint32_t section, uint64_t offset)
{
    if (section >= o->header.e_shnum) return "?";
    const Elf64_Shdr *s = &o->sections[section];
    if (s->sh_type != SHT_STRTAB || !within(s->sh_offset, s->sh_size, o->len) || offset >= s->sh_size) return "?";
    const char *name = (const char *)o->at + s->sh_offset + offset;
    return memchr(name, 0, s->sh_size - offset) ? name : "?";
}

static bool host_machine(uint16_t machine)
{
#if defined __x86_64__
    return machine == EM_X86_64;
#elif defined __aarch64__
    return machine == EM_AARCH64;
#else
    return machine == EM_NONE;
#endif
}

static bool read_header(Object *o)
{
    Elf64_Ehdr *h = &o->header;
    if (o->len < sizeof *h) return bad(o, "it is cut short");
    memcpy(h, o->at, sizeof *h);
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_type != ET_REL)
        return bad(o, "not a relocatable ELF64 file");
    if (!host_machine(h->e_machine)) return bad(o, "made for another processor");
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 || h->e_shnum > MOST_SECTIONS ||
        !within(h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr), o->len))
        return bad(o, "no table of sections");
    return true;
}

static bool read_sections(Object *o)
{
    size_t n = o->header.e_shnum;
    o->sections = malloc(n * sizeof *o->sections);
    o->offset = malloc(n * sizeof *o->offset);
    if (!o->sections || !o->offset) return err_set(o->err, ERR_MEMORY, "no memory to load code");
    memcpy(o->sections, o->at + o->header.e_shoff, n * sizeof *o->sections);
    for (size_t k = 0; k < n; k++) {
        const Elf64_Shdr *s = &o->sections[k];
        o->offset[k] = NOWHERE;
        if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL && !within(s->sh_offset, s->sh_size, o->len))
            return bad(o, "a section is cut short");
    }
    return true;
}

/* ---- layout: read-only and executable sections, the GOT, then on pages of their own what stays writable ---- */

/* Unwind tables are of no use: nothing unwinds through a kernel. */
static bool is_placed(const Object *o, const Elf64_Shdr *s)
{
    if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size) return false;
    if (s->sh_type != SHT_PROGBITS && s->sh_type != SHT_NOBITS) return false;
    return strcmp(read_name(o, o->header.e_shstrndx, s->sh_name), ".eh_frame") != 0;
}

/* Data that is only written to by relocations. */
static bool is_readonly(const Object *o, const Elf64_Shdr *s)
{
    return !(s->sh_flags & SHF_WRITE) || strncmp(read_name(o, o->header.e_shstrndx, s->sh_name), ".data.rel.ro", 12) == 0;
}

static bool place(Object *o, uint64_t *offset, uint64_t bytes, uint64_t align)
{
    if (!align) align = 1;
    if ((align & (align - 1)) || align > page_bytes()) return bad(o, "an alignment is too large");
    *offset = (o->bytes + align - 1) & ~(align - 1);
    if (!within(*offset, bytes, MOST_BYTES)) return bad(o, "it is too large");
    o->bytes = *offset + bytes;
    return true;
}

static bool place_sections(Object *o, bool readonly)
{
    for (size_t k = 1; k < o->header.e_shnum; k++) {
        const Elf64_Shdr *s = &o->sections[k];
        if (!is_placed(o, s) || is_readonly(o, s) != readonly) continue;
        if (s->sh_flags & (SHF_TLS | SHF_COMPRESSED)) return bad(o, "a section of a kind that kernels do not have");
        if (!place(o, &o->offset[k], s->sh_size, s->sh_addralign)) return false;
    }
    return true;
}

static bool is_got(uint32_t type)
{
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

static bool relocates(const Object *o, const Elf64_Shdr *s)
{
    return (s->sh_type == SHT_RELA || s->sh_type == SHT_REL) && s->sh_info < o->header.e_shnum && o->offset[s->sh_info] != NOWHERE;
}

static uint64_t count_got(const Object *o)
{
    uint64_t n = 0;
    Elf64_Rela r;
    if (o->header.e_machine != EM_X86_64) return 0;
    for (size_t k = 1; k < o->header.e_shnum; k++)
        for (uint64_t i = 0; relocates(o, &o->sections[k]) && read_item(o, &o->sections[k], i, &r, sizeof r); i++)
            n += is_got(ELF64_R_TYPE(r.r_info));
    return n;
}

static bool layout(Object *o)
{
    if (!place_sections(o, true)) return false;
    uint64_t got = count_got(o) * sizeof(uint64_t), page = page_bytes();
    if (!place(o, &o->got, got, sizeof(uint64_t))) return false;
    o->readonly = o->bytes = (o->bytes + page - 1) / page * page;
    return place_sections(o, false);
}

static void copy_sections(Object *o)
{
    memset(o->image, 0, o->bytes);                          /* pages are reused, NOBITS and gaps are zero */
    for (size_t k = 1; k < o->header.e_shnum; k++) {
        const Elf64_Shdr *s = &o->sections[k];
        if (o->offset[k] != NOWHERE && s->sh_type == SHT_PROGBITS) memcpy(o->image + o->offset[k], o->at + s->sh_offset, s->sh_size);
    }
}

/* ---- relocations: S the symbol's address, A the addend, P the place's address, as the ABIs write them ---- */

typedef struct { char *at; uint64_t room, s, p; int64_t a; uint32_t type; } Reloc;

static bool fits(int64_t v, int bits) { return v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1); }

static bool put32(const Reloc *r, int64_t v)
{
    int32_t low = (int32_t)v;
    if (r->room < 4 || !fits(v, 32)) return false;
    memcpy(r->at, &low, sizeof low);
    return true;
}

static bool put64(const Reloc *r, uint64_t v)
{
    if (r->room < 8) return false;
    memcpy(r->at, &v, sizeof v);
    return true;
}

static bool put_got(Object *o, const Reloc *r)
{
    uint64_t slot = o->got + o->got_len++ * sizeof(uint64_t);
    memcpy(o->image + slot, &r->s, sizeof r->s);
    return put32(r, (int64_t)((uint64_t)(uintptr_t)(o->image + slot) + (uint64_t)r->a - r->p));
}

static bool relocate_x86_64(Object *o, const Reloc *r)
{
    uint64_t v = r->s + (uint64_t)r->a;
    switch (r->type) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64: return put64(r, v);
    case R_X86_64_PC64: return put64(r, v - r->p);
    case R_X86_64_PC32: case R_X86_64_PLT32: return put32(r, (int64_t)(v - r->p));
    case R_X86_64_32S: return put32(r, (int64_t)v);
    case R_X86_64_32: return v >> 32 == 0 && put32(r, (int32_t)v);
    case R_X86_64_GOTPCREL: case R_X86_64_GOTPCRELX: case R_X86_64_REX_GOTPCRELX: return put_got(o, r);
    default: return false;
    }
}

/* Replaces `bits` bits of an instruction from bit `low` on. */
static bool put_field(const Reloc *r, uint64_t v, int low, int bits)
{
    uint32_t word, mask = (uint32_t)((((uint64_t)1 << bits) - 1) << low);
    if (r->room < 4) return false;
    memcpy(&word, r->at, sizeof word);
    word = (word & ~mask) | ((uint32_t)(v << low) & mask);
    memcpy(r->at, &word, sizeof word);
    return true;
}

/* The low 12 bits of an address in units of 2^shift bytes, as loads and stores have them. */
static bool put_lo12(const Reloc *r, uint64_t v, int shift)
{
    uint64_t low = v & 0xFFF;
    return (low & (((uint64_t)1 << shift) - 1)) == 0 && put_field(r, low >> shift, 10, 12);
}

static bool relocate_aarch64(const Reloc *r)
{
    uint64_t v = r->s + (uint64_t)r->a;
    int64_t pages = (int64_t)((v & ~(uint64_t)0xFFF) - (r->p & ~(uint64_t)0xFFF)) >> 12, far = (int64_t)(v - r->p);
    switch (r->type) {
    case R_AARCH64_NONE: return true;
    case R_AARCH64_ABS64: return put64(r, v);
    case R_AARCH64_PREL64: return put64(r, (uint64_t)far);
    case R_AARCH64_PREL32: return put32(r, far);
    case R_AARCH64_CALL26: case R_AARCH64_JUMP26: return far % 4 == 0 && fits(far, 28) && put_field(r, (uint64_t)far >> 2, 0, 26);
    case R_AARCH64_ADR_PREL_PG_HI21:
        return fits(pages, 21) && put_field(r, (uint64_t)pages, 29, 2) && put_field(r, (uint64_t)pages >> 2, 5, 19);
    case R_AARCH64_ADD_ABS_LO12_NC: return put_lo12(r, v, 0);
    case R_AARCH64_LDST8_ABS_LO12_NC: return put_lo12(r, v, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return put_lo12(r, v, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return put_lo12(r, v, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return put_lo12(r, v, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return put_lo12(r, v, 4);
    default: return false;
    }
}

/* The address of a symbol, in *out; its section, where it has one, must be placed. */
static bool symbol_address(Object *o, uint32_t strings, const Elf64_Sym *s, uint64_t *out)
{
    *out = 0;
    if (s->st_shndx == SHN_ABS) {
        *out = s->st_value;
        return true;
    }
    if (s->st_shndx == SHN_UNDEF)
        return err_set(o->err, ERR_INTERNAL, "object code of %s refers to '%s', which it does not define", o->name,
                       read_name(o, strings, s->st_name));
    if (s->st_shndx >= o->header.e_shnum || o->offset[s->st_shndx] == NOWHERE) return bad(o, "a symbol outside the code and its data");
    if (s->st_value > o->sections[s->st_shndx].sh_size) return bad(o, "a symbol past its section's end");
    *out = (uint64_t)(uintptr_t)(o->image + o->offset[s->st_shndx] + s->st_value);
    return true;
}

static bool relocate_one(Object *o, const Elf64_Shdr *table, const Elf64_Rela *r)
{
    const Elf64_Shdr *target = &o->sections[table->sh_info], *symbols = &o->sections[table->sh_link];
    Elf64_Sym symbol;
    uint64_t s = 0;
    if (r->r_offset >= target->sh_size || target->sh_type == SHT_NOBITS) return bad(o, "a relocation outside its section");
    if (!read_item(o, symbols, ELF64_R_SYM(r->r_info), &symbol, sizeof symbol)) return bad(o, "a relocation without a symbol");
    if (ELF64_R_SYM(r->r_info) && !symbol_address(o, symbols->sh_link, &symbol, &s)) return false;
    char *at = o->image + o->offset[table->sh_info] + r->r_offset;
    Reloc reloc = {at, target->sh_size - r->r_offset, s, (uint64_t)(uintptr_t)at, r->r_addend, ELF64_R_TYPE(r->r_info)};
    if (o->header.e_machine == EM_X86_64 ? relocate_x86_64(o, &reloc) : relocate_aarch64(&reloc)) return true;
    return err_set(o->err, ERR_INTERNAL, "object code of %s: relocation %u of '%s' is out of range or of an unknown kind", o->name,
                   (unsigned)reloc.type, read_name(o, symbols->sh_link, symbol.st_name));
}

static bool relocate(Object *o)
{
    Elf64_Rela r;
    for (size_t k = 1; k < o->header.e_shnum; k++) {
        const Elf64_Shdr *s = &o->sections[k];
        if (!relocates(o, s)) continue;
        if (s->sh_type != SHT_RELA || s->sh_link >= o->header.e_shnum) return bad(o, "relocations of an unknown form");
        for (uint64_t i = 0; read_item(o, s, i, &r, sizeof r); i++)
            if (!relocate_one(o, s, &r)) return false;
    }
    return true;
}

/* The address of the function `kernel`. */
static bool find_kernel(Object *o, uint64_t *out)
{
    Elf64_Sym s;
    for (size_t k = 1; k < o->header.e_shnum; k++) {
        const Elf64_Shdr *table = &o->sections[k];
        for (uint64_t i = 1; table->sh_type == SHT_SYMTAB && read_item(o, table, i, &s, sizeof s); i++) {
            if (strcmp(read_name(o, table->sh_link, s.st_name), "kernel") != 0 || s.st_shndx == SHN_UNDEF) continue;
            if (s.st_shndx < o->header.e_shnum && s.st_value < o->sections[s.st_shndx].sh_size &&
                (o->sections[s.st_shndx].sh_flags & SHF_EXECINSTR))
                return symbol_address(o, table->sh_link, &s, out);
        }
    }
    return bad(o, "no function 'kernel'");
}

/* ---- code ---- */

/* A line for `perf report` (PYXLA_PERF=1). */
static void perf_map(const Code *c, const char *name)
{
    const char *on = getenv("PYXLA_PERF");
    char path[64];
    if (!on || strcmp(on, "1") != 0) return;
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *f = fopen(path, "ae");
    if (!f) return;
    fprintf(f, "%lx %zx %s\n", (unsigned long)(uintptr_t)c->at, c->bytes, name);
    fclose(f);
}

/* Fills in the pages that c owns. */
static bool build(Object *o, Code *c)
{
    uint64_t entry;
    o->image = c->at;
    copy_sections(o);
    if (!relocate(o) || !find_kernel(o, &entry)) return false;
    if (mprotect(c->at, o->readonly, PROT_READ | PROT_EXEC) != 0)
        return err_set(o->err, ERR_COMPILE, "the system does not let this process make memory executable");
    __builtin___clear_cache(c->at, c->at + o->readonly);
    c->entry = (KernelFn)(uintptr_t)entry;
    return true;
}

static Code *load(Object *o)
{
    if (!read_header(o) || !read_sections(o) || !layout(o)) return NULL;
    if (!o->readonly) return bad(o, "it is empty"), NULL;
    Code *c = calloc(1, sizeof *c);
    size_t page = page_bytes(), pages = (o->bytes + page - 1) / page;
    if (!c || !(c->at = pages_take(pages, &c->slab))) {
        free(c);
        err_set(o->err, ERR_MEMORY, "no memory to load code");
        return NULL;
    }
    c->refs = 1;
    c->pages = pages;
    c->bytes = pages * page;
    if (build(o, c)) {
        atomic_fetch_add(&total, c->bytes);
        perf_map(c, o->name);
        return c;
    }
    pages_give(c->slab, c->at, pages);
    free(c);
    return NULL;
}

Code *code_load(const void *object, size_t len, const char *name, Err *err)
{
    Object o = {.at = object, .len = len, .name = name, .err = err};
    Code *c = load(&o);
    free(o.sections);
    free(o.offset);
    return c;
}

void code_ref(Code *c) { atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed); }

void code_unref(Code *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1) return;
    atomic_fetch_sub(&total, c->bytes);
    pages_give(c->slab, c->at, c->pages);
    free(c);
}

KernelFn code_entry(const Code *c) { return c->entry; }
size_t code_bytes(const Code *c) { return c->bytes; }

size_t code_total(void)
{
    pthread_once(&once, init);
    return atomic_load(&total);
}
