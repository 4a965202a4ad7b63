/*
 * An op that is moved in parts, client side: which parts there are, and the proof of the whole.
 *
 * Design notes
 * - The header's checksum is over the whole payload, first byte to last. A WRITE's parts are hashed
 *   when they are handed out, which is in order; the header is the last part. A READ's parts come
 *   over several connections: a part is hashed as it lands if all before it are, else as soon as
 *   they are. So bytes are hashed while they are in some cache still, and once.
 * - A part whose connection was lost is moved again from its beginning. What was hashed of it is
 *   taken back: the checksum must be that of the bytes which are there in the end.
 * - A window of parts is under way at a time. When it is full the op leaves the queue, and comes
 *   back behind others: a huge value neither floods the connections nor keeps anybody waiting.
 * - After a refusal the parts under way are waited for, as their bytes are coming already. When a
 *   part has lost its second connection the others may hang, too: their connections are closed.
 */
#include <string.h>

#include "base/mem.h"
#include "transport/tcp_impl.h"

static struct mc_tcp_part *part_at(struct mc_tcp_stripe *stripe, uint64_t number)
{
    return &stripe->parts[number % stripe->slots];
}

/* ---- an op, or a part ------------------------------------------------------------------------ */

static bool is_part(const struct mc_xfer_op *op)
{
    const struct mc_tcp_stripe *stripe = op->stripe;

    return stripe != NULL && stripe->op != op;
}

static const struct mc_tcp_part *as_part(const struct mc_xfer_op *op)
{
    return (const struct mc_tcp_part *)(const void *)op; /* its first member */
}

struct mc_tcp_part *mc_tcp_part_of(struct mc_xfer_op *op)
{
    return is_part(op) ? MC_CONTAINER_OF(op, struct mc_tcp_part, op) : NULL;
}

uint64_t mc_tcp_op_len(const struct mc_xfer_op *op)
{
    return is_part(op) ? as_part(op)->len : op->extent.payload_len;
}

bool mc_tcp_op_has_header(const struct mc_xfer_op *op)
{
    if (!is_part(op)) {
        return true;
    }
    return op->right == MC_RIGHT_READ ? as_part(op)->offset == 0 : as_part(op)->header_only;
}

uint64_t mc_tcp_op_load(const struct mc_xfer_op *op)
{
    return op->right == MC_RIGHT_WRITE || is_part(op) ? mc_tcp_op_len(op) : 0;
}

/* ---- places in the payload ------------------------------------------------------------------- */

/* The bytes at @p cursor that lie in one piece, @p max at most; the cursor moves behind them. There
 * are some. */
static size_t take_run(const struct mc_xfer_op *op, struct mc_tcp_cursor *cursor, uint64_t max,
                       const uint8_t **out_from)
{
    size_t left;

    while ((left = op->pieces[cursor->piece].iov_len - cursor->done) == 0) {
        cursor->piece++;
        cursor->done = 0;
        MC_ASSERT(cursor->piece < op->pieces_count);
    }
    *out_from = (const uint8_t *)op->pieces[cursor->piece].iov_base + cursor->done;
    left = left < max ? left : (size_t)max;
    cursor->done += left;
    return left;
}

/* Hash the next @p len bytes at @p cursor, and move it behind them. */
static void hash_on(struct mc_tcp_stripe *stripe, struct mc_tcp_cursor *cursor, uint64_t len)
{
    while (len > 0) {
        const uint8_t *from;
        size_t run = take_run(stripe->op, cursor, len, &from);

        mc_extent_hash_update(&stripe->hash, from, run);
        len -= run;
    }
}

static void skip(const struct mc_xfer_op *op, struct mc_tcp_cursor *cursor, uint64_t len)
{
    while (len > 0) {
        const uint8_t *from;

        len -= take_run(op, cursor, len, &from);
    }
}

/* ---- handing out ----------------------------------------------------------------------------- */

bool mc_tcp_stripe_suits(const struct mc_tcp *tcp, const struct mc_xfer_op *op)
{
    const uint64_t part_len = tcp->options.tcp_part_len;

    if (op->right == MC_RIGHT_WRITE) {
        return op->extent.payload_len > part_len;
    }
    return op->extent.payload_len >= MC_TCP_READ_PARTS_MIN * part_len;
}

mooncake_err mc_tcp_stripe_create(struct mc_tcp_peer *peer, struct mc_xfer_op *op)
{
    const uint64_t len = op->extent.payload_len;
    const uint64_t part_len = peer->tcp->options.tcp_part_len;
    const uint64_t count =
        len / part_len + (len % part_len > 0 ? 1 : 0) + (op->right == MC_RIGHT_WRITE ? 1 : 0);
    const unsigned slots = count < MC_TCP_PARTS_MAX ? (unsigned)count : MC_TCP_PARTS_MAX;
    const size_t size = sizeof(struct mc_tcp_stripe) + slots * sizeof(struct mc_tcp_part);
    struct mc_tcp_stripe *stripe = mc_aligned_alloc(_Alignof(struct mc_tcp_stripe), size);

    if (stripe == NULL) {
        return MOONCAKE_ENOMEM;
    }
    memset(stripe, 0, size);
    stripe->op = op;
    stripe->peer = peer;
    stripe->count = count;
    stripe->slots = slots;
    stripe->hashes = op->right == MC_RIGHT_WRITE || op->verify == MC_VERIFY_FULL;
    mc_extent_hash_init(&stripe->hash);
    stripe->hash_before = stripe->hash;
    op->stripe = stripe;
    return MOONCAKE_OK;
}

static bool can_hand_out(const struct mc_tcp_stripe *stripe)
{
    return stripe->err == MOONCAKE_OK && stripe->next < stripe->count &&
           stripe->next - stripe->base < stripe->slots;
}

/* Into the queue of those with parts to hand out, at its end, or out of it. */
static void see_to_queue(struct mc_tcp_stripe *stripe)
{
    if (!can_hand_out(stripe)) {
        mc_list_drop(&stripe->op->node);
    } else if (!mc_list_linked(&stripe->op->node)) {
        mc_list_add_tail(&stripe->peer->striped, &stripe->op->node);
    }
}

struct mc_xfer_op *mc_tcp_stripe_hand_out(struct mc_xfer_op *op)
{
    struct mc_tcp_stripe *stripe = op->stripe;
    const uint64_t part_len = stripe->peer->tcp->options.tcp_part_len;
    const uint64_t left = op->extent.payload_len - stripe->handed_len;
    struct mc_tcp_part *part = part_at(stripe, stripe->next);

    MC_ASSERT(can_hand_out(stripe));
    *part = (struct mc_tcp_part){
        .op = {.right = op->right,
               .extent = op->extent,
               .target = op->target,
               .pieces = op->pieces,
               .pieces_count = op->pieces_count,
               .verify = op->verify,
               .peer = &stripe->peer->place,
               .stripe = stripe},
        .offset = stripe->handed_len,
        .len = left < part_len ? left : part_len,
        .start = stripe->handed,
        .header_only = left == 0,
        .under_way = true,
    };
    mc_list_init(&part->op.node);
    if (op->right == MC_RIGHT_WRITE) {
        hash_on(stripe, &stripe->handed, part->len);
    } else {
        skip(op, &stripe->handed, part->len);
    }
    stripe->handed_len += part->len;
    stripe->next++;
    stripe->under_way++;
    see_to_queue(stripe);
    return &part->op;
}

/* ---- bytes of a READ ------------------------------------------------------------------------- */

/* Hash what has landed of part `base`. */
static void hash_landed(struct mc_tcp_stripe *stripe)
{
    const struct mc_tcp_part *part = part_at(stripe, stripe->base);

    if (stripe->hashes && stripe->op->right == MC_RIGHT_READ && stripe->base < stripe->next) {
        hash_on(stripe, &stripe->hashed, part->landed - stripe->hashed_len);
        stripe->hashed_len = part->landed;
    }
}

void mc_tcp_part_begin(struct mc_tcp_part *part)
{
    struct mc_tcp_stripe *stripe = part->op.stripe;

    part->landed = 0;
    if (part == part_at(stripe, stripe->base) && stripe->hashed_len > 0) {
        stripe->hash = stripe->hash_before;
        stripe->hashed = part->start;
        stripe->hashed_len = 0;
    }
}

void mc_tcp_part_promise(struct mc_tcp_part *part, mooncake_err verdict, uint64_t checksum)
{
    struct mc_tcp_stripe *stripe = part->op.stripe;

    if (mc_tcp_op_has_header(&part->op)) {
        stripe->promised = checksum;
        stripe->hashes = stripe->hashes && verdict == MOONCAKE_OK;
    }
}

void mc_tcp_part_landed(struct mc_tcp_part *part, uint64_t n)
{
    struct mc_tcp_stripe *stripe = part->op.stripe;

    part->landed += n;
    MC_ASSERT(part->landed <= part->len);
    if (part == part_at(stripe, stripe->base)) {
        hash_landed(stripe);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Parts at the beginning that have ended make room for others. */
static void advance(struct mc_tcp_stripe *stripe)
{
    while (stripe->base < stripe->next && !part_at(stripe, stripe->base)->under_way) {
        hash_landed(stripe);
        stripe->hash_before = stripe->hash;
        stripe->hashed_len = 0;
        stripe->base++;
    }
    hash_landed(stripe);
}

/* Take parts out of everything: those that wait, and with @p also_sent all. */
static void quiet(struct mc_tcp_stripe *stripe, bool also_sent)
{
    for (uint64_t n = stripe->base; n < stripe->next; n++) {
        struct mc_tcp_part *part = part_at(stripe, n);
        const struct mc_tcp_place *place = part->op.peer;

        if (part->under_way && (also_sent || place->conn == NULL)) {
            mc_tcp_peer_quiet_op(&part->op);
            part->under_way = false;
            stripe->under_way--;
        }
    }
}

/* No part is under way any more: tell. */
static void finish(struct mc_tcp_stripe *stripe)
{
    struct mc_tcp_peer *peer = stripe->peer;
    struct mc_xfer_op *op = stripe->op;
    mooncake_err err = stripe->err;

    MC_ASSERT(stripe->under_way == 0);
    if (err == MOONCAKE_OK && op->right == MC_RIGHT_READ && stripe->hashes &&
        mc_extent_hash_digest(&stripe->hash) != stripe->promised) {
        err = MOONCAKE_ECHECKSUM;
    }
    mc_list_drop(&op->node);
    op->stripe = NULL;
    mc_free(stripe);
    mc_tcp_peer_end_op(peer, op, err);
}

void mc_tcp_stripe_destroy(struct mc_xfer_op *op)
{
    struct mc_tcp_stripe *stripe = op->stripe;

    quiet(stripe, true);
    op->stripe = NULL;
    mc_free(stripe);
}

/* Is it of no use to wait for the others? */
static bool is_loss(mooncake_err err)
{
    return err == MOONCAKE_ERPC || err == MOONCAKE_ENOMEM;
}

void mc_tcp_stripe_end(struct mc_xfer_op *op, mooncake_err err)
{
    struct mc_tcp_stripe *stripe = op->stripe;
    struct mc_tcp_part *part = mc_tcp_part_of(op);

    if (part != NULL) {
        MC_ASSERT(part->under_way);
        part->under_way = false;
        stripe->under_way--;
    }
    stripe->err = stripe->err == MOONCAKE_OK ? err : stripe->err;
    if (stripe->err == MOONCAKE_OK) {
        advance(stripe);
    } else {
        quiet(stripe, is_loss(err));
    }
    see_to_queue(stripe);
    if (stripe->under_way == 0 && (stripe->err != MOONCAKE_OK || stripe->base == stripe->count)) {
        finish(stripe);
    }
}
