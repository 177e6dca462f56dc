import { replyDecorators } from './decorators'
import { INVALID_OPTION } from './errors'
import { Mount } from './mount'
import { readOptions, unknownOptions } from './options'
import { withSlash } from './resolve-path'
import { addRoutes } from './routes'
import { kHead, withdrawHead } from './send'
import { joinCache } from './shared-cache'
import type { FastifyInstance } from 'fastify'
import type { RouterOptions } from './routes'
import type { CacheUse } from './shared-cache'
import type { CachedStaticOptions } from '../types/index'

export async function plugin (fastify: FastifyInstance, options: CachedStaticOptions): Promise<void> {
  const settings = readOptions(options)
  if (!settings.suppressWarning) for (const warning of unknownOptions(options)) fastify.log.warn(warning)
  const use = joinCache(fastify, settings.openFileCache)
  fastify.addHook('onClose', use.leave)
  for (const root of settings.send.roots) await checkRoot(fastify, root, use, settings.suppressWarning)

  const router = routerOptions(fastify)
  const mount = new Mount(settings, {
    cache: use.cache,
    policy: use.policy,
    prefix: fastify.prefix + withSlash(settings.prefix),
    cutsAtSemicolon: router.useSemicolonDelimiter === true
  })
  if (use.isPublic && !fastify.hasDecorator('openFileCache')) fastify.decorate('openFileCache', use.cache)
  if (!fastify.hasReplyDecorator(kHead)) fastify.decorateReply(kHead, null)
  // `setHeaders` may throw, an `onSend` hook fail, or hold back a body that cannot be read to its end.
  fastify.addHook('onError', (_request, reply, _error, done) => {
    withdrawHead(reply)
    done()
  })
  if (settings.decorateReply) {
    if (fastify.hasReplyDecorator('sendFile') || fastify.hasReplyDecorator('download')) {
      throw new INVALID_OPTION(
        'decorateReply', 'must be false here: another registration, or @fastify/static, has added reply.sendFile and reply.download'
      )
    }
    const { sendFile, download } = replyDecorators(mount, { ...options })
    fastify.decorateReply('sendFile', sendFile)
    fastify.decorateReply('download', download)
  }
  if (!settings.serve) return
  await checkFallback(fastify, mount, use)
  await addRoutes(fastify, mount, router)
}

/** A root that is missing may appear later; one that is no directory will not become one. */
async function checkRoot (
  fastify: FastifyInstance, root: string, { cache, policy }: CacheUse, suppressWarning: boolean
): Promise<void> {
  const answer = await cache.open(root, policy, false)
  cache.invalidate(root)
  if (answer.kind !== 'negative') {
    answer.release()
    if (answer.snapshot.kind !== 'directory') throw new INVALID_OPTION('root', `must be a directory, but ${root} is a file`)
  } else if (answer.errno !== 'ENOENT') {
    throw new INVALID_OPTION('root', `must be a directory, but ${root} cannot be opened (${answer.errno})`)
  } else if (!suppressWarning) {
    fastify.log.warn(`"root" path "${root}" must exist`)
  }
}

async function checkFallback (fastify: FastifyInstance, { fallback }: Mount, { cache, policy }: CacheUse): Promise<void> {
  if (fallback === undefined) return
  const answer = await cache.open(fallback.path, policy, false)
  cache.invalidate(fallback.path)
  if (answer.kind !== 'negative') {
    answer.release()
    if (answer.kind === 'directory') fastify.log.warn(`"fallback" must be a file, but "${fallback.path}" is a directory`)
  } else if (answer.errno === 'ENOENT') {
    fastify.log.warn(`"fallback" file "${fallback.path}" is missing`)
  } else {
    fastify.log.warn(`"fallback" file "${fallback.path}" cannot be opened (${answer.errno})`)
  }
}

function routerOptions (fastify: FastifyInstance): RouterOptions {
  const { useSemicolonDelimiter, ignoreTrailingSlash, routerOptions } = fastify.initialConfig as RouterOptions & { routerOptions?: RouterOptions }
  return { useSemicolonDelimiter, ignoreTrailingSlash, ...routerOptions }
}
